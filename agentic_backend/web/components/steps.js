/** The steps of a run, as a tree: experts and agents that were handed over to have their own below them. */

import { t } from "../i18n.js";
import { html } from "./html.js";
import { Activity } from "./notices.js";
import { Said } from "./said.js";
import { Thought } from "./thought.js";
import { ToolCard } from "./tool-card.js";

/** `within` is the exchange's key; `agentName` gives a name by an id. */
export function Steps({ steps, within, agentName }) {
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
