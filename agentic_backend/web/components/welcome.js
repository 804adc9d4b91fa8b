/** An empty conversation: who is asked, what could be asked, and whether it is kept. */

import { t } from "../i18n.js";
import { AgentMark } from "./agent-mark.js";
import { html } from "./html.js";
import { ModeChoice } from "./mode-choice.js";

/** Only a new conversation has its mode yet to be chosen. */
export function Welcome({ agents, agentId, agentsError, draft, isNew, actions: { conversation } }) {
  const agent = agents.find(({ id }) => id === agentId);
  const isQuery = draft.mode === "query";
  const start = (text) => {
    conversation.draft({ text });
    document.getElementById("composer")?.focus();
  };
  return html`<div class="welcome">
    ${agent && html`<${AgentMark} id=${agent.id} large=${true} />`}
    <h1>${t("What can I help with?")}</h1>
    ${agentsError && html`<p class="notice error" role="alert">${agentsError}</p>`}
    ${agent && html`<${Introduction} agent=${agent} onStart=${start} />`}
    ${
      isNew &&
      html`<${ModeChoice}
        isQuery=${isQuery}
        onChoose=${(mode) => conversation.draft({ mode: mode === "query" ? mode : undefined })}
      />`
    }
  </div>`;
}

function Introduction({ agent: { name, description, tags = [], starters = [] }, onStart }) {
  return html`
    <p class="welcome-agent">${name}</p>
    ${description && html`<p class="description" dir="auto">${description}</p>`}
    ${
      tags.length > 0 &&
      html`<p class="tags">${tags.map((tag) => html`<span key=${tag} class="tag">${tag}</span>`)}</p>`
    }
    ${
      starters.length > 0 &&
      html`<ul class="starters" aria-label=${t("Suggestions")}>
        ${starters.map(
          (text) =>
            html`<li key=${text}>
              <button type="button" data-testid="starter" dir="auto" onClick=${() => onStart(text)}>${text}</button>
            </li>`,
        )}
      </ul>`
    }
  `;
}
