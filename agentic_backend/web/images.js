/**
 * Where an image comes from. One of another host loads on a click only: an answer, or a page that an agent has read,
 * may have written what was said into its address, and to ask for it tells that host who reads it, and when.
 */

import { t } from "./i18n.js";

/** `{href, host}`, `host` being null where the image loads at once; null where it can't be shown. */
export function imageAt(source) {
  if (/^data:image\//i.test(source)) return { href: source, host: null };
  const url = URL.parse(source, document.baseURI);
  if (url?.protocol === location.protocol && url.host === location.host) return { href: url.href, host: null };
  return url?.protocol === "https:" ? { href: url.href, host: url.host } : null;
}

/** The words before and after the host's name in the offer to show its image. */
export const askForImage = t("Show image from {host}", { host: "\n" }).split("\n");

/** The text that stands for an image of `host` where its author gave none. */
export const unnamedImage = (host) => t("Image from {host}", { host });

/** Loads the image in the place of its button; the focus goes with it, so that it is read aloud. */
export function showImage(button) {
  const image = document.createElement("img");
  image.referrerPolicy = "no-referrer";
  image.alt =
    button.querySelector(".image-alt")?.textContent ?? unnamedImage(button.querySelector(".image-host").textContent);
  image.tabIndex = -1;
  image.src = button.closest(".outside-image").dataset.src;
  button.replaceWith(image);
  image.focus({ preventScroll: true });
}
