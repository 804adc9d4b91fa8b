/** Where the user writes. Its text lives in the drafts, so that it outlasts a refused ask and a change of session. */

import { t } from "../i18n.js";
import { goToNextApproval } from "./focus.js";
import { html, useEffect, useLayoutEffect, useRef } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { Queued } from "./queued.js";

export function Composer({
  draft,
  running,
  stopping,
  waiting,
  answers,
  refusal,
  sessionId,
  actions: { conversation },
}) {
  const area = useRef(null);

  useLayoutEffect(() => {
    area.current.style.height = "auto";
    area.current.style.height = `${area.current.scrollHeight}px`;
  }, [draft.text]);
  useEffect(() => {
    // A phone would open its keyboard over the conversation; what waits for a decision has the focus.
    if (!waiting && matchMedia("(hover: hover)").matches) area.current.focus();
  }, [sessionId]);

  const send = () => {
    // What is typed before the page renders again belongs to the next message.
    const { value } = area.current;
    if (answers ? conversation.answer(value) : conversation.send(value)) area.current.value = "";
  };
  const typed = (event) => {
    // 229: the key belongs to an input method that is composing.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  };
  return html`<div class="composer-area">
    ${refusal && html`<${Refusal} refusal=${refusal} onDismiss=${() => conversation.dismissRefusal()} />`}
    ${waiting && html`<${WaitingHint} answers=${answers} />`}
    ${draft.queued && html`<${Queued} queued=${draft.queued} running=${running} conversation=${conversation} />`}
    <div class="composer">
      <textarea
        ref=${area}
        id="composer"
        data-testid="composer"
        rows="1"
        placeholder="Write a message"
        aria-label="Message"
        aria-describedby=${waiting ? "composer-hint" : undefined}
        enterkeyhint="send"
        value=${draft.text}
        onInput=${({ target }) => conversation.draft({ text: target.value })}
        onKeyDown=${typed}
      />
      ${
        running
          ? html`<${RoundButton} kind="stop" label="Stop" disabled=${stopping} onClick=${() => conversation.stop()} />`
          : html`<${RoundButton} kind="send" label="Send" disabled=${!draft.text.trim()} onClick=${send} />`
      }
    </div>
  </div>`;
}

/** `answers`: what is written answers the question that waits. */
function WaitingHint({ answers }) {
  return html`<p class="composer-hint" id="composer-hint" data-testid="composer-hint">
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

function RoundButton({ kind, label, ...rest }) {
  return html`<button
    type="button"
    class=${`round ${kind}`}
    data-testid=${kind}
    aria-label=${label}
    title=${label}
    ...${rest}
  >
    <${Icon} name=${kind} />
  </button>`;
}

function Refusal({ refusal: { content, retry_after_s: wait }, onDismiss }) {
  return html`<div class="notice error" role="alert" data-testid="error-notice">
    <${Icon} name="warning" />
    <span class="notice-text">${content}${wait ? ` Try again in ${Math.ceil(wait)} s.` : ""}</span>
    <${IconButton} name="close" label="Dismiss" onClick=${onDismiss} />
  </div>`;
}
