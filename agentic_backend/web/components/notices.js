/** What is not an answer: activities, errors, and what waits for a person. */

import { formatEntries, formatJson, formatTime } from "../format.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

export function Activity({ activity, data, agentName }) {
  return html`<p class="activity" data-testid="activity">${activityText(activity, data ?? {}, agentName)}</p>`;
}

/** What `data` holds is the agent's own affair; a text in it wins. */
export function activityText(kind, data, agentName) {
  const said = [data.message, data.text, data.title, data.value].find((text) => typeof text === "string" && text);
  if (said) return said;
  const name = typeof data.to === "string" && agentName(data.to);
  switch (kind) {
    case "agent_switch":
      return name ? `${name} takes over` : "Another agent takes over";
    case "handoff":
      return name ? `Handed over to ${name}` : "Handed over to another agent";
    case "compacted":
      return "Earlier messages were summarised to make room";
    default:
      return formatEntries(data) || "Working";
  }
}

/** `onRetry` is given where asking again may help. */
export function ErrorNotice({ content, onRetry }) {
  return html`<div class="notice error" role="alert" data-testid="error-notice">
    <${Icon} name="warning" />
    <span class="notice-text">${content || "Something went wrong."}</span>
    ${
      onRetry &&
      html`<button type="button" class="button" data-testid="try-again" onClick=${onRetry}>
      <${Icon} name="retry" />Try again
    </button>`
    }
  </div>`;
}

export function AwaitingHuman({ request, onStop, stopping }) {
  const { title, requests = [], expires_at: expiresAt } = request;
  return html`<section class="card human" data-testid="awaiting-human">
    <h3><${Icon} name="hand" />${title || "Waiting for your answer"}</h3>
    ${requests.map((item) => html`<${HumanRequest} key=${item.interrupt_id} ...${item} />`)}
    <footer>
      <button type="button" class="button" onClick=${onStop} disabled=${stopping}>
        ${stopping ? "Stopping…" : "Stop"}
      </button>
      ${expiresAt && html`<span class="muted">Waits until ${formatTime(expiresAt)}</span>`}
    </footer>
  </section>`;
}

function HumanRequest({ question, choices, name, args }) {
  return html`<div class="human-request">
    ${question && html`<p>${question}</p>`}
    ${
      choices?.length > 0 &&
      html`<ul>
      ${choices.map(
        ({ id, label, description }) =>
          html`<li key=${id}>
            <strong>${label}</strong>${description && html`<span class="muted"> ${description}</span>`}
          </li>`,
      )}
    </ul>`
    }
    ${name && html`<p>Wants to call <code>${name}</code></p>`}
    ${args && html`<pre class="json">${formatJson(args)}</pre>`}
  </div>`;
}
