/** The line above the conversation: its title, its agent, what it has cost, and its menu. */

import { formatCosts } from "../format.js";
import { html } from "./html.js";
import { IconButton } from "./icons.js";
import { SessionMenu } from "./session-menu.js";

export function Head({ state: { conversation: open, costs }, agentName, drawer, onOpenDrawer, actions }) {
  const total = costs.sessionId === open.sessionId ? formatCosts(costs.total) : "";
  return html`<header class="head">
    <${IconButton}
      name="menu"
      label="Conversations"
      class="icon-button drawer-only"
      aria-controls="sidebar"
      aria-expanded=${String(drawer)}
      onClick=${onOpenDrawer}
    />
    <span class="head-title" data-testid="title">${open.session?.title ?? ""}</span>
    ${open.session && html`<span class="tag" data-testid="session-agent">${agentName(open.session.agent_id)}</span>`}
    ${total && html`<span class="head-cost" data-testid="session-cost" title="Cost of this conversation">${total}</span>`}
    <${SessionMenu} session=${open.session} actions=${actions} />
  </header>`;
}
