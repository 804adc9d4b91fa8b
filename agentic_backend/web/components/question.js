/** What the user has asked. */

import { formatTime } from "../format.js";
import { html } from "./html.js";
import { Parts } from "./parts.js";

export function Question({ parts, message }) {
  return html`<article class="question" data-testid="message-user" title=${message && formatTime(message.timestamp)}>
    <h2 class="visually-hidden">You</h2>
    ${parts.map((part, index) =>
      part.type === "text" ? html`<p key=${index}>${part.text}</p>` : html`<${Parts} key=${index} parts=${[part]} />`,
    )}
  </article>`;
}
