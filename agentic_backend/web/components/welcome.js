/** An empty conversation: who is asked, and what could be asked. */

import { html } from "./html.js";

/** Only a new conversation has its agent yet to be chosen; one that was opened empty has its own. */
export function Welcome({ agents, agentId, agentsError, isNew, actions }) {
  const agent = agents.find(({ id }) => id === agentId);
  return html`<div class="welcome">
    <h1>What can I help with?</h1>
    ${agentsError && html`<p class="notice error" role="alert">${agentsError}</p>`}
    ${
      isNew &&
      agents.length > 0 &&
      html`<label class="picker">
      <span>Agent</span>
      <select data-testid="agent-picker" value=${agentId} onChange=${({ target }) => actions.chooseAgent(target.value)}>
        ${agents.map(({ id, name }) => html`<option key=${id} value=${id}>${name}</option>`)}
      </select>
    </label>`
    }
    ${agent && html`<${Introduction} agent=${agent} onStart=${(text) => actions.conversation.send(text)} />`}
  </div>`;
}

function Introduction({ agent: { description, tags = [], starters = [] }, onStart }) {
  return html`
    ${description && html`<p class="description">${description}</p>`}
    ${
      tags.length > 0 &&
      html`<p class="tags">${tags.map((tag) => html`<span key=${tag} class="tag">${tag}</span>`)}</p>`
    }
    ${
      starters.length > 0 &&
      html`<ul class="starters" aria-label="Suggestions">
      ${starters.map(
        (text) =>
          html`<li key=${text}>
            <button type="button" data-testid="starter" onClick=${() => onStart(text)}>${text}</button>
          </li>`,
      )}
    </ul>`
    }
  `;
}
