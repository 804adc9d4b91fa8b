/** A conversation's title while it is being changed: Enter or leaving it keeps it, Escape doesn't. */

import { isComposing } from "../composing.js";
import { errorText } from "../error-words.js";
import { t } from "../i18n.js";
import { html, useLayoutEffect, useRef, useState } from "./html.js";

/** `onRename` gets the new title and may fail; `onClose` is called when the field shall go. */
export function TitleInput({ title, onRename, onClose }) {
  const input = useRef(null);
  const [error, setError] = useState(null);
  /** The field also loses the focus when it goes away after Enter or Escape. */
  const done = useRef(false);
  // Before the next key arrives, which would go astray; `select` alone moves the focus in some browsers only.
  useLayoutEffect(() => {
    input.current.focus();
    input.current.select();
  }, []);

  const save = async () => {
    if (done.current) return;
    done.current = true;
    const wanted = input.current.value.trim();
    if (!wanted || wanted === title) return onClose();
    try {
      await onRename(wanted);
      onClose();
    } catch (failure) {
      done.current = false;
      setError(errorText(failure));
    }
  };
  const typed = (event) => {
    if (isComposing(event)) return;
    if (event.key === "Enter") save();
    if (event.key !== "Escape") return;
    done.current = true;
    onClose();
  };
  return html`<input
      ref=${input}
      class="rename"
      data-testid="rename-input"
      aria-label=${t("Title")}
      maxlength="200"
      defaultValue=${title}
      onKeyDown=${typed}
      onBlur=${save}
    />
    ${error && html`<p class="muted" role="alert">${error}</p>`}`;
}
