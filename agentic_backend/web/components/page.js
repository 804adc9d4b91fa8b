/** The whole page: the list beside the open conversation; on a narrow screen the list is a drawer. */

import { takesWords } from "../answerable.js";
import { nextAgentId } from "../agents.js";
import { brand } from "../brand.js";
import { ongoing } from "../client/transcript.js";
import { EMPTY, NEW } from "../drafts.js";
import { noFeedback } from "../feedback.js";
import { t } from "../i18n.js";
import { clickedHere, sessionHref } from "../location.js";
import { familyOf } from "../sessions.js";
import { shortcutOf } from "../shortcuts.js";
import { isShown } from "../sidebar-view.js";
import { AttachmentsContext } from "./attachment-list.js";
import { ComposerHints } from "./composer-hints.js";
import { Composer } from "./composer.js";
import { ConnectionNotice } from "./connection-notice.js";
import { Head } from "./head.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "./html.js";
import { lazy } from "./lazy.js";
import { MessageLimit } from "./message-limit.js";
import { Messages } from "./messages.js";
import { PanelLoaderContext, PanelsContext } from "./parts.js";
import { ReloadNotice } from "./reload-notice.js";
import { Sidebar } from "./sidebar.js";
import { UndoNotice } from "./undo-notice.js";
import { Welcome } from "./welcome.js";

const PlacedPanel = lazy(async () => (await import("../panels/placed-panel.js")).PlacedPanel);
const ShortcutsDialog = lazy(async () => (await import("./shortcuts-dialog.js")).ShortcutsDialog);

export function Page({ state, actions: given }) {
  const [shortcuts, setShortcuts] = useState(false);
  const actions = useMemo(() => ({ ...given, showShortcuts: () => setShortcuts(true) }), [given]);
  const { agents, conversation: open, sidebar, connection, unseen } = state;
  const draft = state.drafts[open.sessionId ?? NEW] ?? EMPTY;
  const agentName = useCallback((id) => agents.find((agent) => agent.id === id)?.name ?? id, [agents]);
  const title = open.session?.title ?? "";

  useEffect(() => {
    const count = unseen ? `(${unseen}) ` : "";
    document.title = count + (title ? `${title} – ${brand.name}` : brand.name);
  }, [title, unseen]);
  useSidebarFocus(sidebar, given);
  useEffect(() => {
    const does = {
      stop: () => isWriting(given.state()) && given.conversation.stop(),
      search: () => given.sidebar.focusSearch(),
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
    ><${PanelLoaderContext.Provider} value=${actions.havePanels}
    ><${PanelsContext.Provider} value=${state.panels?.panels ?? null}
    ><div class=${classes("page", sidebar.drawer && "drawer-open", sidebar.folded && "folded")}>
      <button type="button" class="skip" onClick=${focusComposer}>${t("Skip to message")}</button>
      <${Sidebar}
        user=${state.user}
        isAdmin=${state.isAdmin}
        panels=${state.panels}
        sessions=${state.sessions}
        search=${state.search}
        unread=${state.unread}
        openId=${open.sessionId}
        openFamily=${open.session ? familyOf(open.session) : null}
        actions=${actions}
      />
      <div class="backdrop" onClick=${() => actions.sidebar.closeDrawer()} />
      <main>
        <${Head}
          sessionId=${open.sessionId}
          session=${open.session}
          family=${state.branches.family}
          isQuery=${open.isQuery}
          draft=${draft}
          nextAgentId=${mayAskAnother(open) ? nextAgentId(state, draft) : null}
          agents=${agents}
          favourites=${state.favourites}
          chatProfiles=${state.chatProfiles}
          sharing=${state.sharing}
          costs=${state.costs}
          panels=${state.panels}
          isDrawerOpen=${sidebar.drawer}
          actions=${actions}
        />
        <${ConnectionNotice} connection=${connection} onConnect=${actions.connect} />
        <${ReloadNotice} problems=${state.reloadProblems} />
        ${
          state.panels?.open.instead
            ? html`<${PlacedPanel} place="instead" shown=${state.panels} sessionId=${open.sessionId} opening=${open.opening} />`
            : html`<${Body} state=${state} draft=${draft} actions=${actions} agentName=${agentName} />
                <${Foot} state=${state} draft=${draft} actions=${actions} />`
        }
      </main>
      ${state.panels?.open.beside && html`<${PlacedPanel} place="beside" shown=${state.panels} sessionId=${open.sessionId} />`}
      ${shortcuts && html`<${ShortcutsDialog} onClose=${() => setShortcuts(false)} />`}
      <${UndoNotice} offer=${state.undo} undo=${actions.undo} /></div
  ><//><//><//>`;
}

const classes = (...names) => names.filter(Boolean).join(" ");

const mayAskAnother = ({ session, loading, loadError }) => !loading && !loadError && session?.state !== "completed";

/** Whether a key may stop what runs. What waits for a person only its button ends: the request is lost with it. */
function isWriting({ conversation: { transcript } }) {
  const running = ongoing(transcript);
  return running && !running.stopping && running.status !== "awaiting_human";
}

const focusComposer = () => document.querySelector("#composer, .panel-instead button")?.focus();

/** The focus follows the sidebar: into it when it is shown, to the button that shows it when it goes. */
function useSidebarFocus(sidebar, actions) {
  const { folded, drawer, searches } = sidebar;
  const before = useRef(sidebar);
  useEffect(() => {
    const wasSearched = searches !== before.current.searches;
    if (wasSearched) document.getElementById("session-search").focus();
    else if (sidebar !== before.current)
      document.querySelector(isShown(sidebar) ? "#sidebar button" : "#show-sidebar").focus();
    before.current = sidebar;
    if (!drawer) return undefined;
    const typed = ({ key, defaultPrevented }) => {
      // What is open over the list closes first.
      const isTaken = defaultPrevented || document.querySelector(":popover-open, dialog[open]");
      if (key === "Escape" && !isTaken) actions.sidebar.closeDrawer();
    };
    addEventListener("keydown", typed);
    return () => removeEventListener("keydown", typed);
  }, [folded, drawer, searches]);
}

export function Body({ state, draft, actions, agentName }) {
  const { conversation: open, branches, connection, costs, feedback, agents, agentsError, limits } = state;
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
    <${MessageLimit.Provider} value=${limits?.message_bytes ?? null}>
      <${Messages}
        open=${open}
        branches=${branches}
        costs=${costs.byExchange}
        said=${feedback.sessionId === open.sessionId ? feedback.byRank : noFeedback.byRank}
        isHeard=${connection.phase === "open"}
        isAuthor=${state.isAuthor}
        agentName=${agentName}
        actions=${actions}
      />
    <//>
  </div>`;
}

export function Foot({ state: { conversation: open, drafts, uploads, limits }, draft, actions }) {
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
        <a class="button" href=${sessionHref(null)} onClick=${clickedHere(() => actions.conversation.startNew())}>
          ${t("New chat")}
        </a>
      </div>`;
  }
  const running = ongoing(open.transcript);
  return html`<${Composer}
    draft=${draft}
    loading=${open.loading}
    running=${Boolean(running)}
    stopping=${Boolean(running?.stopping)}
    waiting=${running?.status === "awaiting_human"}
    answers=${running?.status === "awaiting_human" && takesWords(running)}
    refusal=${open.refusal}
    isQuery=${open.isQuery || (!open.sessionId && drafts[NEW]?.mode === "query")}
    limits=${limits}
    uploads=${uploads}
    sessionId=${open.sessionId}
    actions=${actions}
  />`;
}
