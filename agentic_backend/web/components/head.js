/** The line above the conversation: its title, its agent, what it has cost, and its menu. */

import { formatCosts } from "../format.js";
import { t } from "../i18n.js";
import { html } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { SessionMenu } from "./session-menu.js";
import { Usage } from "./usage.js";

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
    ${
      open.session?.message_count > 0 &&
      html`<${Usage}
        key=${open.sessionId}
        label=${t("What this conversation took")}
        class="quiet-button head-cost"
        align="end"
        load=${() => actions.conversation.api.usage({ sessionId: open.sessionId })}
        testId="session-usage"
      >
        ${total ? html`<span data-testid="session-cost">${total}</span>` : html`<${Icon} name="info" />`}
      <//>`
    }
    <${SessionMenu} session=${open.session} actions=${actions} />
  </header>`;
}
