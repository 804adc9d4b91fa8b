/** A question that is being written anew, in its place. What is sent becomes a branch. */

import { isComposing } from "../composing.js";
import { t } from "../i18n.js";
import { isTouched } from "../touch.js";
import { html, useId, useLayoutEffect, useRef, useState } from "./html.js";
import { TooLong, sizeBeyond, useMessageLimit } from "./message-limit.js";
import { reveal } from "./scrolled-view.js";

/** `hasFiles`: with files it needs no text. */
export function QuestionEditor({ text, hasFiles, onSend, onClose }) {
  const area = useRef(null);
  const [hint, tooLong] = [useId(), useId()];
  const limit = useMessageLimit();
  const [size, setSize] = useState(() => sizeBeyond(text, limit));
  useLayoutEffect(() => {
    area.current.focus({ preventScroll: true });
    area.current.setSelectionRange(text.length, text.length);
    reveal(area.current.form);
  }, []);
  const send = () => {
    const { value } = area.current;
    if ((value.trim() || hasFiles) && !sizeBeyond(value, limit)) onSend(value);
  };
  const typed = (event) => {
    if (isComposing(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !isTouched()) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape") {
      event.preventDefault();
      // It would stop what runs.
      event.stopPropagation();
      onClose();
    }
  };
  const submitted = (event) => {
    event.preventDefault();
    send();
  };
  return html`<form class="question-editor" data-testid="question-editor" onSubmit=${submitted}>
    <textarea
      ref=${area}
      rows="1"
      dir="auto"
      data-testid="edited-question"
      aria-label=${t("Your question")}
      aria-describedby=${size ? `${tooLong} ${hint}` : hint}
      aria-invalid=${size ? "true" : undefined}
      defaultValue=${text}
      onInput=${({ target }) => setSize(sizeBeyond(target.value, limit))}
      onKeyDown=${typed}
    />
    ${size && html`<${TooLong} id=${tooLong} limit=${limit} size=${size} />`}
    <footer>
      <p class="muted" id=${hint}>${t("Send makes a new branch; the old one stays.")}</p>
      <button type="button" class="button" data-testid="cancel-edit" onClick=${onClose}>${t("Cancel")}</button>
      <button type="submit" class="button primary" data-testid="send-edit" disabled=${Boolean(size)}>
        ${t("Send")}
      </button>
    </footer>
  </form>`;
}
