/** How much text a message may have, and the sentence that tells of one that has more. */

import { formatBytes } from "../format.js";
import { t } from "../i18n.js";
import { createContext, html, useContext } from "./html.js";
import { Icon } from "./icons.js";

/** In bytes; null while it is not known. */
export const MessageLimit = createContext(null);

export const useMessageLimit = () => useContext(MessageLimit);

/** The size of a text in bytes if that is beyond the limit, or null. */
export function sizeBeyond(text, limit) {
  // What counts as one here has three bytes at most in UTF-8.
  if (limit === null || text.length * 3 <= limit) return null;
  const { length } = new TextEncoder().encode(text);
  return length > limit ? length : null;
}

/** `size` is what sizeBeyond has found; the children are what can be done about it. */
export function TooLong({ id, limit, size, children }) {
  const words = { limit: formatBytes(limit), size: formatBytes(size, limit) };
  return html`<p class="composer-hint limit" id=${id} role="alert" data-testid="too-long">
    <${Icon} name="warning" />
    <span>${t("A message has at most {limit}; this has {size}.", words)}</span>
    ${children}
  </p>`;
}
