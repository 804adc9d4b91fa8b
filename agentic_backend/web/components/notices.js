/** What is not an answer: activities and errors. */

import { formatEntries, visible } from "../format.js";
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
      return data.dropped || data.summary === false
        ? "Earlier messages were left out"
        : "Earlier messages were summarised";
    default:
      return formatEntries(data) || "Working";
  }
}

/** `detail`, `{type, text, where}`, is for developers and admins; `onRetry` is given where asking again may help. */
export function ErrorNotice({ content, detail, onRetry }) {
  return html`<div class="notice error" role="alert" data-testid="error-notice">
    <${Icon} name="warning" />
    <div class="notice-text">
      ${content || "Something went wrong."}
      ${detail && html`<${Detail} ...${detail} />`}
    </div>
    ${
      onRetry &&
      html`<button type="button" class="button" data-testid="try-again" onClick=${onRetry}>
      <${Icon} name="retry" />Try again
    </button>`
    }
  </div>`;
}

function Detail({ type, text, where }) {
  return html`<pre class="error-detail" data-testid="error-detail">${visible(
    [[type, text].filter(Boolean).join(": "), where].filter(Boolean).join("\n"),
  )}</pre>`;
}
