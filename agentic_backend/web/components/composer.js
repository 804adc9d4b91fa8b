/** Where the user writes. Its text lives in the drafts, so that it outlasts a refused ask and a change of session. */

import { goToNextApproval } from "./focus.js";
import { html, useEffect, useLayoutEffect, useRef } from "./html.js";
import { Icon, IconButton } from "./icons.js";

export function Composer({ draft, running, stopping, waiting, refusal, sessionId, actions: { conversation } }) {
  const area = useRef(null);

  useLayoutEffect(() => {
    area.current.style.height = "auto";
    area.current.style.height = `${area.current.scrollHeight}px`;
  }, [draft]);
  useEffect(() => {
    // A phone would open its keyboard over the conversation; what waits for a decision has the focus.
    if (!waiting && matchMedia("(hover: hover)").matches) area.current.focus();
  }, [sessionId]);

  const send = () => {
    // What is typed before the page renders again belongs to the next message.
    const { value } = area.current;
    if (waiting ? conversation.answer(value) : conversation.send(value)) area.current.value = "";
  };
  const typed = (event) => {
    // 229: the key belongs to an input method that is composing.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (!running || waiting) send();
  };
  return html`<div class="composer-area">
    ${refusal && html`<${Refusal} refusal=${refusal} onDismiss=${() => conversation.dismissRefusal()} />`}
    ${waiting && html`<${WaitingHint} />`}
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
        value=${draft}
        onInput=${({ target }) => conversation.write(target.value)}
        onKeyDown=${typed}
      />
      ${
        running
          ? html`<${RoundButton} kind="stop" label="Stop" disabled=${stopping} onClick=${() => conversation.stop()} />`
          : html`<${RoundButton} kind="send" label="Send" disabled=${!draft.trim()} onClick=${send} />`
      }
    </div>
  </div>`;
}

function WaitingHint() {
  return html`<p class="composer-hint" id="composer-hint" data-testid="composer-hint">
    <${Icon} name="hand" />
    <span>The agent waits for your decision. To write something else, stop it first.</span>
    <button type="button" class="link-button" onClick=${goToNextApproval}>Show</button>
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
