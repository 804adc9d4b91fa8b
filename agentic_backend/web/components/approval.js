/**
 * One request to a person: a call to decide on, or a question to answer.
 *
 * It stays in its place while its decision is on its way, and is as it was before if the server refuses that.
 */

import { unshownOf } from "../asked-value.js";
import { allowedOf } from "../decisions.js";
import { formatAhead, formatTime, visible, visibleProse } from "../format.js";
import { t } from "../i18n.js";
import { AnswerForm } from "./answer-form.js";
import { Arguments } from "./arguments.js";
import { useNow } from "./clock.js";
import { EditForm, RejectForm } from "./decision-forms.js";
import { DECISIONS, Decided } from "./decided.js";
import { passFocusOn, useFocusBack, useFocusWhenShown } from "./focus.js";
import { html, useId, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { reveal } from "./scrolled-view.js";

/** `call` is the message's, where it is one to decide on; `waiting` is what the exchange waits for: `{title?, expires_at?}`; `onDecide` gets the decision. */
export function Approval({ approval, call, waiting, onDecide, stopping }) {
  const { request, state, decision, refusal } = approval;
  const card = useRef(null);
  /** What is being written: `reject`, `edit` or nothing. It outlasts a decision that is refused. */
  const [writing, setWriting] = useState(null);
  const [edited, setEdited] = useState(null);
  const [reason, setReason] = useState("");
  const [entered, setEntered] = useState({});
  const title = useId();
  const isOpen = state === "open";
  const unshown = isOpen ? unshownOf(request, waiting?.title) : null;
  useFocusWhenShown(card, isOpen);
  usePassingFocus(card, isOpen);
  useFocusBack(card, isOpen ? writing : null);
  useLayoutEffect(() => {
    if (isOpen && refusal) reveal(card.current);
  }, [isOpen, refusal]);

  if (!isOpen) return html`<${Decided} request=${request} decision=${decision} isSent=${state === "sent"} />`;
  return html`<section
    ref=${card}
    class="card approval"
    role="group"
    tabindex="-1"
    aria-labelledby=${title}
    data-testid="approval"
    data-state="open"
  >
    <header>
      <h3 id=${title}><${Icon} name="hand" /><${Title} request=${request} toolTitle=${call?.title} title=${waiting?.title} /></h3>
      ${waiting?.expires_at && html`<${Expiry} at=${waiting.expires_at} />`}
    </header>
    ${request.question && html`<p class="why" data-testid="approval-question">${visibleProse(request.question)}</p>`}
    ${request.name && writing !== "edit" && html`<${Arguments} args=${request.args} />`}
    ${unshown && html`<${Arguments} args=${unshown} testId="asked-value" />`}
    ${
      refusal &&
      html`<p class="notice error" role="alert" data-testid="approval-refused">
        <${Icon} name="warning" /><span class="notice-text">${refusal}</span>
      </p>`
    }
    ${
      request.name
        ? html`<${CallDecision}
            request=${request}
            writing=${writing}
            edited=${edited}
            reason=${reason}
            stopping=${stopping}
            onWriting=${setWriting}
            onEdited=${setEdited}
            onReason=${setReason}
            onDecide=${onDecide}
          />`
        : html`<${QuestionDecision}
            request=${request}
            entered=${entered}
            stopping=${stopping}
            onEnter=${setEntered}
            onDecide=${onDecide}
          />`
    }
  </section>`;
}

/** A tool's title is its server's word: beside it stands the name, which says what is called. */
function Title({ request: { name }, toolTitle, title }) {
  if (!name) return title ? visibleProse(title) : t("The agent asks");
  return html`<span>
    ${toolTitle && html`${visible(toolTitle)} `}<code>${visible(name)}</code> ${t("needs your approval")}
  </span>`;
}

function Expiry({ at }) {
  const now = useNow(1_000);
  const isOver = new Date(at).getTime() <= now;
  return html`<time class="muted" datetime=${at} title=${formatTime(at)} data-testid="approval-expiry">
    ${isOver ? t("Expired") : t("Expires {when}", { when: formatAhead(at, now) })}
  </time>`;
}

function CallDecision({ request, writing, edited, reason, stopping, onWriting, onEdited, onReason, onDecide }) {
  const { args, response_schema: schema } = request;
  const allowed = allowedOf(request);
  if (writing === "reject") {
    const reject = (message) => onDecide({ action: "reject", ...(message && { message }) });
    return html`<${RejectForm}
      reason=${reason}
      onWrite=${onReason}
      onReject=${reject}
      onCancel=${() => onWriting(null)}
    />`;
  }
  if (writing === "edit") {
    return html`<${EditForm}
      args=${args}
      schema=${schema}
      written=${edited}
      onWrite=${onEdited}
      onEdit=${(changed) => onDecide({ action: "edit", args: changed })}
      onCancel=${() => onWriting(null)}
    />`;
  }
  const buttons = [
    { action: "approve", kind: "button primary", onClick: () => onDecide({ action: "approve" }) },
    { action: "edit", kind: "button", onClick: () => onWriting("edit") },
    { action: "reject", kind: "button", onClick: () => onWriting("reject") },
  ].filter(({ action }) => allowed.includes(action));
  if (!buttons.length) return html`<p class="muted">${t("This can't be decided here; it can only be stopped.")}</p>`;
  return html`<div class="approval-actions">
    ${buttons.map(
      ({ action, kind, onClick }) =>
        html`<button
          key=${action}
          type="button"
          class=${kind}
          data-testid=${action}
          disabled=${stopping}
          onClick=${onClick}
        >
          <${Icon} name=${DECISIONS[action].icon} />${DECISIONS[action].command}
        </button>`,
    )}
  </div>`;
}

function QuestionDecision({ request: { choices, response_schema: schema }, entered, stopping, onEnter, onDecide }) {
  const answer = (given) => onDecide({ action: "answer", answer: given });
  if (!choices?.length) {
    return html`<${AnswerForm}
      schema=${schema}
      entered=${entered}
      stopping=${stopping}
      onEnter=${onEnter}
      onAnswer=${answer}
    />`;
  }
  return html`<ul class="choices">
    ${choices.map(
      ({ id, label, description }) => html`<li key=${id}>
        <button type="button" data-testid="choice" disabled=${stopping} onClick=${() => answer(id)}>
          <strong>${visibleProse(label)}</strong>${description && html`<span class="muted">${visibleProse(description)}</span>`}
        </button>
      </li>`,
    )}
  </ul>`;
}

/** The focus, if it was in the card, goes on to what is to be done next. */
function usePassingFocus(card, isOpen) {
  const hadFocus = useRef(false);
  if (card.current && isOpen === false && card.current.contains(document.activeElement)) hadFocus.current = true;
  useLayoutEffect(() => {
    if (!isOpen && hadFocus.current) passFocusOn();
    hadFocus.current = false;
  }, [isOpen]);
  // The next step of the run may come so soon that the card goes without having been shown as decided.
  useLayoutEffect(
    () => () => {
      if (card.current?.contains(document.activeElement)) queueMicrotask(passFocusOn);
    },
    [],
  );
}
