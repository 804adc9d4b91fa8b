/** The chat beside an entry, in which the agent answers as it was saved last. */

import { KnownAgents } from "../components/agent-mark.js";
import { AttachmentsContext } from "../components/attachment-list.js";
import { ConnectionNotice } from "../components/connection-notice.js";
import { html, useCallback } from "../components/html.js";
import { IconButton } from "../components/icons.js";
import { Body, Foot } from "../components/page.js";
import { EMPTY, NEW } from "../drafts.js";
import { t } from "../i18n.js";

export function TrialPane({ trial: { agentId, chat }, chatActions: actions, onClose }) {
  const { agents, conversation: open } = chat;
  const draft = chat.drafts[open.sessionId ?? NEW] ?? EMPTY;
  const agentName = useCallback((id) => agents.find((agent) => agent.id === id)?.name ?? id, [agents]);
  const isServed = agents.some(({ id }) => id === agentId);
  const close = () => {
    // The pane goes, and the focus with it.
    (document.querySelector("[data-testid=try-agent]") ?? document.getElementById("admin-title")).focus();
    onClose();
  };
  return html`<section class="trial" aria-label=${t("Try it")} data-testid="trial">
    <header class="trial-head">
      <h2>${t("Try it")}</h2>
      <span class="muted">${t("As it was saved last.")}</span>
      <span class="spacer" />
      <${IconButton}
        name="plus"
        label=${t("New chat")}
        data-testid="new-trial"
        onClick=${() => actions.conversation.startNew()}
      />
      <${IconButton} name="close" label=${t("Close")} data-testid="close-trial" onClick=${close} />
    </header>
    <${ConnectionNotice} connection=${chat.connection} onConnect=${actions.connect} />
    ${
      isServed || open.sessionId
        ? html`<${KnownAgents.Provider} value=${agents}
            ><${AttachmentsContext.Provider} value=${actions.attachments}
              ><${Body} state=${chat} draft=${draft} actions=${actions} agentName=${agentName} />
              <${Foot} state=${chat} draft=${draft} actions=${actions} /><//
          ><//>`
        : html`<p class="center" data-testid="not-served">
            ${agents.length ? t("This agent is not served.") : t("Loading")}
          </p>`
    }
  </section>`;
}
