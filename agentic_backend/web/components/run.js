/** The run of an exchange: one line that tells what was done, and unfolds into the tree of agents and their steps. */

import { useFold } from "../folds.js";
import { formatDuration } from "../format.js";
import { plural, t } from "../i18n.js";
import { friendly } from "../run.js";
import { html, useId } from "./html.js";
import { Icon } from "./icons.js";
import { Activity, activityText } from "./notices.js";
import { Parts } from "./parts.js";
import { Thought } from "./thought.js";
import { ToolCard } from "./tool-card.js";
import { Elapsed } from "./working.js";

/** `isWorking`: whether nothing but the run shows that the exchange goes on. */
export function Run({ run, exchange, isWorking, agentName }) {
  const [unfolded, setUnfolded] = useFold(`run:${exchange.key}`);
  const open = Boolean(unfolded);
  const body = useId();
  return html`<section class=${`run ${open ? "open" : ""}`} data-testid="run" data-state=${isWorking ? "working" : "done"}>
      <button
        type="button"
        class="run-head"
        data-testid="run-head"
        aria-expanded=${String(open)}
        aria-controls=${body}
        onClick=${() => setUnfolded(!open)}
      >
        <span class="mark">${isWorking ? html`<span class="spinner" />` : html`<${Icon} name="tool" />`}</span>
        ${
          isWorking
            ? html`<${Working} run=${run} exchange=${exchange} agentName=${agentName} />`
            : html`<${Done} run=${run} agentName=${agentName} />`
        }
        <${Icon} name="chevron" />
      </button>
      <div id=${body} class="run-body" hidden=${!open}>
        ${open && html`<${Steps} steps=${run.steps} within=${exchange.key} agentName=${agentName} />`}
      </div>
    </section>
    ${run.said && !open && html`<${Said} item=${run.said} />`}
    ${run.media.length > 0 && html`<div class="run-media"><${Parts} parts=${run.media} /></div>`}`;
}

function Working({ run: { running }, exchange, agentName }) {
  const doing = running ? friendly(running.call.name) : null;
  const told = exchange.progress ? activityText("progress", exchange.progress, agentName) : null;
  return html`<span data-testid="working">${t("Working…")}</span>
    ${(told ?? doing) && html`<span class="run-doing" data-testid=${told ? "activity" : "doing"}>${told ?? doing}</span>`}
    <${Elapsed} since=${exchange.messages[0]?.timestamp} sign="· " />`;
}

function Done({ run: { tools, experts, steps, startedAt, endedAt, waitedMs }, agentName }) {
  const failed = failures(steps);
  const lasted = Date.parse(endedAt) - Date.parse(startedAt) - waitedMs;
  const told = [
    tools > 0 && plural(tools, "Used {count} tool", "Used {count} tools"),
    ...experts.map((id) => t("Asked {agent}", { agent: agentName(id) })),
  ].filter(Boolean);
  return html`<span>${told.join(" · ") || t("Worked")}</span>
    ${failed > 0 && html`<span class="run-failed">${plural(failed, "{count} failed", "{count} failed")}</span>`}
    ${lasted >= 0 && html`<span class="muted" data-testid="run-time">· ${formatDuration(lasted)}</span>`}`;
}

const failures = (steps) =>
  steps.reduce((sum, { state, children = [] }) => sum + (state === "failed") + failures(children), 0);

/** What is said between the steps stands beside the line until something newer is said. */
function Said({ item }) {
  return html`<div class="observation" data-testid="observation"><${Parts} parts=${item.parts} /></div>`;
}

function Steps({ steps, within, agentName }) {
  return html`<ul class="steps">
    ${steps.map(
      (step) => html`<li key=${step.key}><${Step} step=${step} within=${within} agentName=${agentName} /></li>`,
    )}
  </ul>`;
}

/** `within` tells its fold from those of other exchanges. */
function Step({ step, within, agentName }) {
  const foldKey = `${within}/${step.key}`;
  switch (step.kind) {
    case "tool":
      return html`<${ToolCard} ...${step} foldKey=${foldKey} />`;
    case "thought":
      return html`<${Thought} ...${step} foldKey=${foldKey} />`;
    case "observation":
      return html`<${Said} item=${step} />`;
    case "expert":
      return html`<div class="step-agent" data-testid="step-agent" data-agent=${step.agent}>
        <${ToolCard} ...${step.item} title=${agentName(step.agent)} icon="person" foldKey=${foldKey} />
        ${step.children.length > 0 && html`<${Steps} steps=${step.children} within=${within} agentName=${agentName} />`}
      </div>`;
    case "agent":
      return html`<div class="step-agent" data-testid="step-agent" data-agent=${step.agent}>
        <p class="activity">${t("Handed over to {agent}", { agent: agentName(step.agent) })}</p>
        <${Steps} steps=${step.children} within=${within} agentName=${agentName} />
      </div>`;
    default:
      return html`<${Activity} ...${step} agentName=${agentName} />`;
  }
}
