/** What has to be known about what is written: that it was refused, that it waits, that it is too long. */

import { errorText } from "../error-words.js";
import { t } from "../i18n.js";
import { goToNextApproval } from "./focus.js";
import { html } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { TooLong } from "./message-limit.js";

export const HINT_ID = "composer-hint";
export const LIMIT_ID = "composer-limit";

/**
 * `isDue`: what is written is sent once its files are there. `tooLong` is `{limit, size}` in bytes; `onAttach`, if it can
 * be, makes a file of the text.
 */
export function ComposerHints({ refusal, waiting, answers, isQuery, isDue, tooLong, onAttach, conversation }) {
  return html`
    ${refusal && html`<${Refusal} refusal=${refusal} onDismiss=${() => conversation.dismissRefusal()} />`}
    ${
      isQuery &&
      html`<p class="composer-hint query" data-testid="query-hint">
        <span class="query-tag">${t("Temporary chat")}</span>
        <span>${t("Nothing of it is kept: it is gone once you leave it or load the page again.")}</span>
      </p>`
    }
    ${waiting && html`<${WaitingHint} answers=${answers} />`}
    ${
      isDue &&
      html`<p class="composer-hint" role="status" data-testid="due">
        <${Icon} name="clip" />
        <span>${t("It will be sent once the files are uploaded.")}</span>
      </p>`
    }
    ${
      tooLong &&
      html`<${TooLong} id=${LIMIT_ID} ...${tooLong}>
        ${
          onAttach &&
          html`<button type="button" class="link-button" data-testid="attach-long" onClick=${onAttach}>
            ${t("Attach it as a file")}
          </button>`
        }
      <//>`
    }
  `;
}

/** `answers`: what is written answers the question that waits. */
function WaitingHint({ answers }) {
  return html`<p class="composer-hint" id=${HINT_ID} data-testid="composer-hint">
    <${Icon} name="hand" />
    <span
      >${
        answers
          ? t("The agent asks you something: your message is the answer.")
          : t("The agent waits for your decision. What you send waits until that has been made.")
      }</span
    >
    <button type="button" class="link-button" onClick=${goToNextApproval}>${t("Show")}</button>
  </p>`;
}

function Refusal({ refusal, onDismiss }) {
  const wait = refusal.retry_after_s;
  return html`<div class="notice error" role="alert" data-testid="error-notice">
    <${Icon} name="warning" />
    <span class="notice-text"
      >${errorText(refusal)}${wait ? ` ${t("Try again in {seconds} s.", { seconds: Math.ceil(wait) })}` : ""}</span
    >
    <${IconButton} name="close" label=${t("Dismiss")} onClick=${onDismiss} />
  </div>`;
}
