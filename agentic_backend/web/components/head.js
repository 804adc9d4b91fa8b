/** The line above the conversation: who answers next, its title, what it has cost, and its menu. */

import { usageOfFamily } from "../costs.js";
import { formatCosts } from "../format.js";
import { t } from "../i18n.js";
import { familyOf } from "../sessions.js";
import { hasOwn } from "../variants.js";
import { AgentPicker } from "./agent-picker.js";
import { html, memo, useEffect, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { lazy } from "./lazy.js";
import { SessionMenu } from "./session-menu.js";
import { TitleInput } from "./title-input.js";
import { Usage } from "./usage.js";

const PanelMenu = lazy(async () => (await import("../panels/panel-menu.js")).PanelMenu);

/** `nextAgentId` is null where nobody can be chosen. It gets no more than it shows: text that streams is not its own. */
export const Head = memo((given) => {
  const { sessionId, session, family, isQuery, draft, costs, isDrawerOpen, sharing, chatProfiles, panels, actions } = given;
  const [renaming, setRenaming] = useState(false);
  useEffect(() => setRenaming(false), [sessionId]);
  const total = session && costs.rootId === familyOf(session) ? formatCosts(costs.total) : "";
  return html`<header class="head">
    <${IconButton}
      name="menu"
      label=${t("Conversations")}
      class="icon-button show-sidebar"
      id="show-sidebar"
      aria-controls="sidebar"
      aria-expanded=${String(isDrawerOpen)}
      onClick=${() => actions.sidebar.open()}
    />
    ${given.nextAgentId && html`<${NextAgent} ...${given} />`}
    ${isQuery && html`<span class="query-tag" data-testid="query-tag">${t("Temporary chat")}</span>`}
    ${
      renaming
        ? html`<${TitleInput}
            title=${session.title}
            onRename=${(title) => actions.sessions.rename(session.id, title)}
            onClose=${() => setRenaming(false)}
          />`
        : html`<${Title} title=${session?.title ?? ""} isConversation=${Boolean(session) || isQuery} />`
    }
    ${
      session?.message_count > 0 &&
      html`<${Usage}
        key=${sessionId}
        label=${t("What this conversation took")}
        class="quiet-button head-cost"
        align="end"
        load=${() => usageOfFamily(actions.conversation.api, family.filter(hasOwn))}
        testId="session-usage"
      >
        ${total ? html`<span data-testid="session-cost">${total}</span>` : html`<${Icon} name="info" />`}
      <//>`
    }
    ${panels && html`<${PanelMenu} shown=${panels} />`}
    <${SessionMenu}
      session=${session}
      draft=${draft}
      sharing=${sharing}
      chatProfiles=${chatProfiles}
      actions=${actions}
      onRename=${() => setRenaming(true)}
    />
  </header>`;
});

/** What is a conversation has a heading also while it has no title; where nothing is asked yet, the welcome is it. */
function Title({ title, isConversation }) {
  if (title) return html`<h1 class="head-title" data-testid="title">${title}</h1>`;
  return html`${isConversation && html`<h1 class="visually-hidden">${t("New conversation")}</h1>`}
    <span class="head-title" data-testid="title" />`;
}

/** In a conversation that has begun, choosing another agent counts for what is asked from then on. */
function NextAgent({ session, nextAgentId, agents, favourites, actions }) {
  const choose = (id) =>
    session
      ? actions.conversation.draft({ agentId: id === session.agent_id ? undefined : id })
      : actions.agents.choose(id);
  return html`<${AgentPicker}
    agents=${agents}
    chosenId=${nextAgentId}
    favourites=${favourites}
    onChoose=${choose}
    onFavourite=${(id) => actions.agents.toggleFavourite(id)}
  />`;
}
