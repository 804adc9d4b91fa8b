/** What the user has asked. */

import { attachedTo, besideFiles } from "../attached.js";
import { formatTime } from "../format.js";
import { AttachmentList } from "./attachment-list.js";
import { FoldedText } from "./folded-text.js";
import { html } from "./html.js";
import { Parts } from "./parts.js";

export function Question({ parts, message }) {
  const files = attachedTo(parts);
  return html`<article class="question" data-testid="message-user" title=${message && formatTime(message.timestamp)}>
    <h2 class="visually-hidden">You</h2>
    ${files.length > 0 && html`<${AttachmentList} files=${files} />`}
    ${besideFiles(parts).map((part, index) =>
      part.type === "text" ? html`<${FoldedText} key=${index} text=${part.text} />` : html`<${Parts} key=${index} parts=${[part]} />`,
    )}
  </article>`;
}
