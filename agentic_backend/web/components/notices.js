/** What is not an answer: activities and errors. */

import { errorText, isAdvice } from "../error-words.js";
import { formatAhead, formatEntries, visibleProse } from "../format.js";
import { t } from "../i18n.js";
import { CopyButton } from "./copy-button.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

export function Activity({ activity, data, agentName }) {
  return html`<p class="activity" data-testid="activity">${activityText(activity, data ?? {}, agentName)}</p>`;
}

/** What `data` holds is the agent's own affair; a text in it wins. */
export function activityText(kind, data, agentName) {
  const said = [data.message, data.text, data.title, data.value].find((text) => typeof text === "string" && text);
  if (said) return said;
  const name = data.to_name ?? (typeof data.to === "string" && agentName(data.to));
  switch (kind) {
    case "agent_switch":
      return name ? t("{agent} takes over", { agent: name }) : t("Another agent takes over");
    case "handoff":
      return name ? t("Handed over to {agent}", { agent: name }) : t("Handed over to another agent");
    case "compacted":
      return data.dropped || data.summary === false
        ? t("Earlier messages were left out")
        : t("Earlier messages were summarised");
    default:
      return formatEntries(withoutKept(data)) || t("Working");
  }
}

const withoutKept = ({ kept: _, ...told }) => told;

/**
 * What went wrong, and the way on. `error` is `{code, content, retryable, request_id?, retry_after_s?, detail?}`;
 * `onRetry` asks the same again, and is given where that can be done.
 */
export function ErrorNotice({ error, onRetry }) {
  const { code, request_id: requestId, detail, retryable } = error;
  const next = isAdvice(error) ? null : nextStep(error);
  return html`<div class="notice error" role="alert" data-testid="error-notice" data-code=${code}>
    <${Icon} name="warning" />
    <div class="notice-text">
      <p>${error.content || code ? errorText(error) : t("Something went wrong.")}</p>
      ${next && html`<p class="muted" data-testid="next-step">${next}</p>`}
      <${ErrorFacts} code=${code} requestId=${requestId} />
      ${detail && html`<${Detail} ...${detail} />`}
    </div>
    ${
      onRetry &&
      html`<button type="button" class="button" data-testid="try-again" onClick=${onRetry}>
      <${Icon} name="retry" />${retryable ? t("Try again") : t("Ask again")}
    </button>`
    }
  </div>`;
}

/** What a person tells who helps them: the code, and the id by which the server's log is searched. */
export function ErrorFacts({ code, requestId }) {
  if (!code && !requestId) return null;
  return html`<p class="error-facts muted">
    ${code && html`<span>${t("Code")} <code>${code}</code></span>`}
    ${
      requestId &&
      html`<span>${t("Request")} <code data-testid="request-id">${requestId}</code>
        <${CopyButton} text=${requestId} label=${t("Copy the request's id")} testId="copy-request-id" />
      </span>`
    }
  </p>`;
}

/** By code, where it is known more exactly than by whose fault it is. */
const NEXT_STEPS = {
  context_too_long: "Begin a new conversation, or ask for less.",
  message_too_large: "Send a shorter message.",
  content_filtered: "Ask in other words.",
  limit_reached: "Ask for less at once, or begin a new conversation.",
  budget_exceeded: "Wait until the budget is renewed, or ask who runs this server.",
  session_completed: "Begin a new conversation.",
  assignment_closed: "Begin a new conversation.",
  model_quota: "Ask who runs this server: the quota has to be raised.",
  model_refused_key: "Ask who runs this server: the key has to be changed.",
  model_not_found: "Ask who runs this server: the model's name has to be changed.",
};

function nextStep({ code, retryable, whose, retry_after_s: after }) {
  if (NEXT_STEPS[code]) return t(NEXT_STEPS[code]);
  if (after) return t("Try again {when}.", { when: formatAhead(after * 1_000, 0) });
  if (retryable) return t("Try again in a moment.");
  return whose === "client" ? t("Change what you ask.") : t("If it happens again, tell who runs this server the request's id.");
}

function Detail({ type, text, where }) {
  return html`<pre class="error-detail" data-testid="error-detail">${visibleProse(
    [[type, text].filter(Boolean).join(": "), where].filter(Boolean).join("\n"),
  )}</pre>`;
}
