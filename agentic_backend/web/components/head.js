/** The line above the conversation: who answers next, its title, what it has cost, and its menu. */

import { nextAgentId } from "../agents.js";
import { EMPTY, NEW } from "../drafts.js";
import { formatCosts } from "../format.js";
import { t } from "../i18n.js";
import { AgentPicker } from "./agent-picker.js";
import { html, useEffect, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { SessionMenu } from "./session-menu.js";
import { TitleInput } from "./title-input.js";
import { Usage } from "./usage.js";

export function Head({ state, actions }) {
  const { conversation: open, costs, drafts, sidebar } = state;
  const { session } = open;
  const draft = drafts[open.sessionId ?? NEW] ?? EMPTY;
  const [renaming, setRenaming] = useState(false);
  useEffect(() => setRenaming(false), [open.sessionId]);
  const total = costs.sessionId === open.sessionId ? formatCosts(costs.total) : "";
  return html`<header class="head">
    <${IconButton}
      name="menu"
      label=${t("Conversations")}
      class="icon-button show-sidebar"
      id="show-sidebar"
      aria-controls="sidebar"
      aria-expanded=${String(sidebar.drawer)}
      onClick=${() => actions.sidebar.open()}
    />
    <${NextAgent} state=${state} draft=${draft} actions=${actions} />
    ${open.isQuery && html`<span class="query-tag" data-testid="query-tag">${t("Query")}</span>`}
    ${
      renaming
        ? html`<${TitleInput}
            title=${session.title}
            onRename=${(title) => actions.sessions.rename(session.id, title)}
            onClose=${() => setRenaming(false)}
          />`
        : html`<span class="head-title" data-testid="title">${session?.title ?? ""}</span>`
    }
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
    <${SessionMenu}
      session=${session}
      draft=${draft}
      sharing=${state.sharing}
      chatProfiles=${state.chatProfiles}
      actions=${actions}
      onRename=${() => setRenaming(true)}
    />
  </header>`;
}

/** In a conversation that has begun, choosing another agent counts for what is asked from then on. */
function NextAgent({ state, draft, actions: { agents, conversation } }) {
  const { session, loading, loadError } = state.conversation;
  const chosenId = nextAgentId(state, draft);
  if (!chosenId || loading || loadError || session?.state === "completed") return null;
  const choose = (id) =>
    session ? conversation.draft({ agentId: id === session.agent_id ? undefined : id }) : agents.choose(id);
  return html`<${AgentPicker}
    agents=${state.agents}
    chosenId=${chosenId}
    favourites=${state.favourites}
    onChoose=${choose}
    onFavourite=${(id) => agents.toggleFavourite(id)}
  />`;
}
