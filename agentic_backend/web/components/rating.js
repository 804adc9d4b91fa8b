/** What the user says of an answer: a thumb up or down, and a comment. */

import { isComposing } from "../composing.js";
import { errorText } from "../error-words.js";
import { t } from "../i18n.js";
import { html, useId, useLayoutEffect, useRef, useState } from "./html.js";
import { IconButton } from "./icons.js";
import { reveal } from "./scrolled-view.js";

const LONGEST_COMMENT = 4_000;
const THUMBS = { up: ["thumbUp", t("Good answer")], down: ["thumbDown", t("Bad answer")] };

/** `said` is `{rating, comment}`, or undefined; `onGive(rating, comment)` and `onWithdraw()` may fail. */
export function Rating({ said, onGive, onWithdraw }) {
  const thumbs = useRef(null);
  const [isCommenting, setCommenting] = useState(false);
  const [error, setError] = useState(null);
  const told = async (change) => {
    setError(null);
    try {
      await change();
    } catch (failure) {
      setError(errorText(failure));
    }
  };
  const rate = (rating) => {
    const isTakenBack = said?.rating === rating;
    setCommenting(!isTakenBack);
    told(() => (isTakenBack ? onWithdraw() : onGive(rating, said?.comment ?? "")));
  };
  const close = () => {
    setCommenting(false);
    thumbs.current.querySelector("[aria-pressed=true]")?.focus();
  };
  const send = async (comment) => {
    await onGive(said?.rating ?? "up", comment);
    close();
  };
  return html`<span class="rating" ref=${thumbs} role="group" aria-label=${t("Your rating")}>
      ${Object.entries(THUMBS).map(
        ([rating, [icon, label]]) => html`<${IconButton}
          key=${rating}
          name=${icon}
          label=${label}
          aria-pressed=${String(said?.rating === rating)}
          data-testid=${`rate-${rating}`}
          onClick=${() => rate(rating)}
        />`,
      )}
      ${
        said &&
        !isCommenting &&
        html`<button type="button" class="quiet-button" data-testid="comment" onClick=${() => setCommenting(true)}>
          ${said.comment ? t("Your comment") : t("Add a comment")}
        </button>`
      }
    </span>
    ${error && html`<p class="notice error" role="alert">${error}</p>`}
    ${isCommenting && said && html`<${Comment} said=${said} onSend=${send} onClose=${close} />`}`;
}

function Comment({ said, onSend, onClose }) {
  const id = useId();
  const field = useRef(null);
  const [error, setError] = useState(null);
  useLayoutEffect(() => {
    field.current.focus({ preventScroll: true });
    reveal(field.current.form);
  }, []);
  const sent = async (event) => {
    event.preventDefault();
    try {
      await onSend(field.current.value);
    } catch (failure) {
      setError(errorText(failure));
    }
  };
  const typed = (event) => {
    if (event.key !== "Escape" || isComposing(event)) return;
    event.stopPropagation();
    onClose();
  };
  return html`<form class="rating-comment" data-testid="rating-comment" onSubmit=${sent} onKeyDown=${typed}>
    <label for=${id}>${said.rating === "up" ? t("What was good?") : t("What was wrong?")}</label>
    <textarea
      ref=${field}
      id=${id}
      dir="auto"
      rows="3"
      maxlength=${LONGEST_COMMENT}
      data-testid="comment-text"
      defaultValue=${said.comment}
    />
    ${error && html`<p class="notice error" role="alert">${error}</p>`}
    <footer>
      <button type="button" class="button" onClick=${onClose}>${t("Cancel")}</button>
      <button type="submit" class="button primary" data-testid="send-comment">${t("Send")}</button>
    </footer>
  </form>`;
}
