/** The whole page: the list beside the open conversation; on a narrow screen the list is a drawer. */

import { takesWords } from "../answerable.js";
import { nextAgentId } from "../agents.js";
import { brand } from "../brand.js";
import { ongoing } from "../client/transcript.js";
import { EMPTY, NEW } from "../drafts.js";
import { t } from "../i18n.js";
import { shortcutOf } from "../shortcuts.js";
import { AttachmentsContext } from "./attachment-list.js";
import { ComposerHints } from "./composer-hints.js";
import { Composer } from "./composer.js";
import { ConnectionNotice } from "./connection-notice.js";
import { Head } from "./head.js";
import { html, useCallback, useEffect, useMemo, useState } from "./html.js";
import { Messages } from "./messages.js";
import { ShortcutsDialog } from "./shortcuts-dialog.js";
import { Sidebar } from "./sidebar.js";
import { Welcome } from "./welcome.js";

const isNarrow = () => matchMedia("(max-width: 48rem)").matches;

export function Page({ state, actions: given }) {
  const [drawer, setDrawer] = useState(false);
  const [shortcuts, setShortcuts] = useState(false);
  const closeDrawer = useCallback(() => setDrawer(false), []);
  const actions = useMemo(() => ({ ...given, showShortcuts: () => setShortcuts(true) }), [given]);
  const { agents, conversation: open, sessions, connection, unseen } = state;
  const agentName = useCallback((id) => agents.find((agent) => agent.id === id)?.name ?? id, [agents]);
  const title = open.session?.title ?? "";

  useEffect(() => {
    const count = unseen ? `(${unseen}) ` : "";
    document.title = count + (title ? `${title} – ${brand.name}` : brand.name);
  }, [title, unseen]);
  useEffect(() => {
    if (!drawer) return undefined;
    document.querySelector(drawer === "search" ? SEARCH : "#sidebar button").focus();
    const typed = ({ key }) => key === "Escape" && setDrawer(false);
    addEventListener("keydown", typed);
    return () => removeEventListener("keydown", typed);
  }, [drawer]);
  useEffect(() => {
    const does = {
      stop: () => isRunning(given.state()) && given.conversation.stop(),
      search: () => (isNarrow() ? setDrawer("search") : focusSearch()),
      startNew() {
        given.conversation.startNew();
        focusComposer();
      },
      write: focusComposer,
      showShortcuts: () => setShortcuts(true),
    };
    const pressed = (event) => {
      const name = shortcutOf(event);
      if (!name || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      does[name]();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [given]);

  return html`<${AttachmentsContext.Provider} value=${actions.attachments}
    ><div class=${drawer ? "page drawer-open" : "page"}>
      <button type="button" class="skip" onClick=${focusComposer}>${t("Skip to message")}</button>
      <${Sidebar}
        user=${state.user}
        sessions=${sessions}
        openId=${open.sessionId}
        actions=${actions}
        onClose=${closeDrawer}
      />
      <div class="backdrop" onClick=${closeDrawer} />
      <main>
        <${Head} state=${state} drawer=${Boolean(drawer)} onOpenDrawer=${() => setDrawer(true)} actions=${actions} />
        <${ConnectionNotice} connection=${connection} onConnect=${actions.connect} />
        <${Body} state=${state} actions=${actions} agentName=${agentName} />
        <${Foot} state=${state} actions=${actions} />
      </main>
      ${shortcuts && html`<${ShortcutsDialog} onClose=${() => setShortcuts(false)} />`}
    </div><//
  >`;
}

const isRunning = ({ conversation: { transcript } }) => ongoing(transcript) && !ongoing(transcript).stopping;

const SEARCH = "[data-testid=session-search]";

const focusComposer = () => document.getElementById("composer")?.focus();

function focusSearch() {
  // A list that is folded is opened by its button.
  document.querySelector("[data-testid=show-sidebar]")?.click();
  requestAnimationFrame(() => document.querySelector(SEARCH)?.focus());
}

function Body({ state, actions, agentName }) {
  const { conversation: open, branches, connection, costs, feedback, agents, agentsError, drafts } = state;
  if (open.loadError) {
    return html`<div class="center" role="alert">
      <p>${open.loadError}</p>
      <button type="button" class="button" onClick=${() => actions.conversation.open(open.sessionId)}>
        ${t("Try again")}
      </button>
    </div>`;
  }
  if (open.loading && !open.transcript.exchanges.length)
    return html`<div class="center"><span class="spinner large" role="img" aria-label=${t("Loading")} /></div>`;
  if (open.transcript.exchanges.length === 0) {
    const draft = drafts[open.sessionId ?? NEW] ?? EMPTY;
    return html`<${Welcome}
      agents=${agents}
      agentId=${nextAgentId(state, draft)}
      draft=${draft}
      agentsError=${agentsError}
      isNew=${!open.sessionId}
      actions=${actions}
    />`;
  }
  return html`<div class="messages-area">
    <${Messages}
      open=${open}
      family=${branches.family}
      costs=${costs.byExchange}
      said=${feedback.byRank}
      isHeard=${connection.phase === "open"}
      agentName=${agentName}
      actions=${actions}
    />
  </div>`;
}

function Foot({ state: { conversation: open, drafts, uploads, limits }, actions }) {
  if (open.session?.state === "completed") {
    return html`<${ComposerHints} refusal=${open.refusal} conversation=${actions.conversation} />
      <div class="composer-area completed">
        <p class="muted">${t("This conversation is completed.")}</p>
        <button
          type="button"
          class="button"
          data-testid="go-on-in-branch"
          disabled=${open.forking}
          onClick=${() => actions.conversation.goOnInBranch()}
        >
          ${t("Go on in a branch")}
        </button>
        <button type="button" class="button" onClick=${() => actions.conversation.startNew()}>${t("New chat")}</button>
      </div>`;
  }
  const running = ongoing(open.transcript);
  return html`<${Composer}
    draft=${drafts[open.sessionId ?? NEW] ?? EMPTY}
    running=${Boolean(running)}
    stopping=${Boolean(running?.stopping)}
    waiting=${running?.status === "awaiting_human"}
    answers=${running?.status === "awaiting_human" && takesWords(running)}
    refusal=${open.refusal}
    isQuery=${open.isQuery || (!open.sessionId && drafts[NEW]?.mode === "query")}
    limits=${limits}
    uploads=${uploads.filter(({ sessionId }) => sessionId === open.sessionId)}
    sessionId=${open.sessionId}
    actions=${actions}
  />`;
}
