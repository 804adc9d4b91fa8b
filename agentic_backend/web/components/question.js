/** What the user has asked, which may be edited, and its variants. */

import { attachedTo, besideFiles } from "../attached.js";
import { formatTime } from "../format.js";
import { t } from "../i18n.js";
import { textOf } from "../timeline.js";
import { AttachmentList } from "./attachment-list.js";
import { CopyButton } from "./copy-button.js";
import { FoldedText } from "./folded-text.js";
import { html, useLayoutEffect, useRef } from "./html.js";
import { IconButton } from "./icons.js";
import { Parts } from "./parts.js";
import { QuestionEditor } from "./question-editor.js";
import { VariantSwitch } from "./variant-switch.js";

/**
 * `editing`: it is being edited. `variants` are those of this question, if it has any, and `turned` how the user has
 * come to this one. `onEdit` (null: it can't be edited) begins and ends that, `onSend` asks the text in its place.
 */
export function Question({ parts, message, editing, variants, turned, onEdit, onSend, onTurn }) {
  const foot = useRef(null);
  const wasEdited = useRef(false);
  useLayoutEffect(() => {
    // The field that had the focus is gone.
    if (wasEdited.current && !editing) foot.current?.querySelector(".edit-question")?.focus();
    wasEdited.current = editing;
  }, [editing]);
  const mayEdit = onEdit && !editing;
  return html`${editing ? html`<${Editor} parts=${parts} onSend=${onSend} onClose=${() => onEdit(false)} />` : html`<${Asked} parts=${parts} message=${message} />`}
    ${
      (!editing || variants) &&
      html`<footer class="question-foot" ref=${foot}>
        ${!editing && textOf(parts) && html`<${CopyButton} text=${textOf(parts)} label=${t("Copy the question")} testId="copy-question" />`}
        ${
          mayEdit &&
          html`<${IconButton}
            name="pencil"
            label=${t("Edit the question")}
            class="icon-button edit-question"
            data-testid="edit-question"
            onClick=${() => onEdit(true)}
          />`
        }
        ${variants && html`<${VariantSwitch} ...${variants} name=${t("Variants of this question")} turned=${turned} onTurn=${onTurn} />`}
      </footer>`
    }`;
}

function Asked({ parts, message }) {
  const files = attachedTo(parts);
  return html`<article class="question" data-testid="message-user" title=${message && formatTime(message.timestamp)}>
    <h2 class="visually-hidden">${t("You")}</h2>
    ${files.length > 0 && html`<${AttachmentList} files=${files} />`}
    ${besideFiles(parts).map((part, index) =>
      part.type === "text" ? html`<${FoldedText} key=${index} text=${part.text} />` : html`<${Parts} key=${index} parts=${[part]} />`,
    )}
  </article>`;
}

/** What is attached stays. */
function Editor({ parts, onSend, onClose }) {
  const files = attachedTo(parts);
  return html`${files.length > 0 && html`<${AttachmentList} files=${files} />`}
    <${QuestionEditor} text=${textOf(parts)} hasFiles=${files.length > 0} onSend=${onSend} onClose=${onClose} />`;
}
