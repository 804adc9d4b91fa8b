/** Links of anybody's: where they may lead, and what their texts may say of where that is. */

/**
 * `href` if it leads to a web or mail address, else null: a link may come from anywhere. None leads to this page with a
 * fragment, nor to this host with a token: a fragment brings the page a token, or another conversation.
 */
export function safeHref(href) {
  const url = href ? URL.parse(href, document.baseURI) : null;
  if (!url || !["https:", "http:", "mailto:"].includes(url.protocol)) return null;
  const isOfPage = url.pathname === location.pathname || new URLSearchParams(url.hash.slice(1)).has("token");
  return url.origin === location.origin && url.hash && isOfPage ? null : url.href;
}

const HOST = /[\p{L}\p{N}\p{M}\u200b-\u200d-]+(?:[.\u3002\uff0e\uff61][\p{L}\p{N}\p{M}\u200b-\u200d-]+)+/gu;
const DIGITS = "0-9-";
const ofScript = (name) => `\\p{Script=${name}}`;
/** What is written together, as browsers show it. Of Latin only the letters of European languages: others look alike. */
const SCRIPTS = [
  "a-z\\u00df-\\u00f6\\u00f8-\\u0130\\u0132-\\u0137\\u0139-\\u0148\\u014a-\\u017e\\u01a1\\u01b0\\u1ea0-\\u1ef9",
  "a-z\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\u30fc",
  "a-z\\p{Script=Han}\\p{Script=Hangul}",
  ...["Arabic", "Bengali", "Devanagari", "Georgian", "Gujarati", "Gurmukhi", "Hebrew", "Kannada", "Khmer"].map(ofScript),
  ...["Malayalam", "Sinhala", "Tamil", "Telugu", "Thai"].map(ofScript),
].map((letters) => new RegExp(`^[${letters}${DIGITS}]+$`, "iu"));
/** Their letters look like Latin ones; whole words can be written so. */
const LOOKALIKE = ["Cyrillic", "Greek", "Armenian"].map(
  (script) => new RegExp(`^[${ofScript(script)}${DIGITS}]+$`, "u"),
);
const ASCII = /^[\0-\x7f]*$/;

/** `text` with the hosts in it that look like others as browsers ask for them, in ASCII (`xn--…`). */
export const withHonestHosts = (text) => (ASCII.test(text) ? text : text.replace(HOST, honestHost));

function honestHost(host) {
  const labels = host.split(/[.\u3002\uff0e\uff61]/);
  const top = labels.at(-1);
  const isPlain = (label) =>
    ASCII.test(label) ||
    SCRIPTS.some((script) => script.test(label)) ||
    (!ASCII.test(top) && LOOKALIKE.some((script) => script.test(label) && script.test(top)));
  return labels.every(isPlain) ? host : (URL.parse(`http://${host}`)?.hostname ?? host);
}
