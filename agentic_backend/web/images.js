/**
 * Where an image comes from. One of another host loads on a click only: an answer, or a page that an agent has read,
 * may have written what was said into its address, and to ask for it tells that host who reads it, and when.
 */

/** `{href, host}`, `host` being null where the image loads at once; null where it can't be shown. */
export function imageAt(source) {
  if (/^data:image\//i.test(source)) return { href: source, host: null };
  const url = URL.parse(source, document.baseURI);
  if (url?.protocol === location.protocol && url.host === location.host) return { href: url.href, host: null };
  return url?.protocol === "https:" ? { href: url.href, host: url.host } : null;
}

/** The text that stands for an image of `host` where its author gave none. */
export const unnamedImage = (host) => `Image from ${host}`;
