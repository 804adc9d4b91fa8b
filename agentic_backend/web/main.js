/** The composition root: signs the user in, then wires REST, socket, state and page together, and starts them. */

import "./theme.js";
import { Agents, noAgents } from "./agents.js";
import { Api } from "./api.js";
import { Attachments } from "./attachments.js";
import { Branches, noBranches } from "./branches.js";
import { Connection, socketUrl } from "./client/connection.js";
import { KnownAgents } from "./components/agent-mark.js";
import { Page } from "./components/page.js";
import { html, render } from "./components/html.js";
import { SigningIn, SignInFailed } from "./components/sign-in.js";
import { noticeOf } from "./connection-words.js";
import { Conversation } from "./conversation.js";
import { Costs, noCosts } from "./costs.js";
import { Entries } from "./entries.js";
import { Feedback, noFeedback } from "./feedback.js";
import { Drafts } from "./drafts.js";
import { forgetRows } from "./kept-rows.js";
import { adminInAddress, pageAddress, sessionInAddress, shareInAddress } from "./location.js";
import { Notifications } from "./notifications.js";
import { nothingOpen } from "./open-state.js";
import { persistently } from "./persistently.js";
import { SessionSearch, noSearch } from "./session-search.js";
import { Sessions, noSessions } from "./sessions.js";
import { SidebarView, sidebarAsLeft } from "./sidebar-view.js";
import { SignInError } from "./sign-in/sign-in-error.js";
import { signedIn } from "./sign-in/sign-in.js";
import { Store } from "./store.js";
import { Undo } from "./undo.js";
import { Unread } from "./unread.js";

const root = new URL("agentic/v1/", document.baseURI);
const page = document.getElementById("page");

render(html`<${SigningIn} />`, page);
try {
  const signIn = await signedIn();
  if (shareInAddress()) await openShare(signIn, shareInAddress());
  else if (adminInAddress()) await openAdministration(signIn);
  else openChat(signIn);
} catch (error) {
  if (!(error instanceof SignInError)) throw error;
  render(html`<${SignInFailed} reason=${error.message} />`, page);
}

async function openShare(signIn, secret) {
  const { SharedPage } = await import("./components/shared-page.js");
  const api = new Api(root, () => signIn.tokens());
  render(html`<${SharedPage} read=${(afterRank) => api.shared(secret, afterRank)} />`, page);
  addEventListener("hashchange", () => location.reload());
}

async function openAdministration(signIn) {
  const { openAdmin } = await import("./admin/admin.js");
  const api = new Api(root, () => signIn.tokens());
  openAdmin({ page, api, owner: signIn.owner, newChat: (how) => wired(signIn, how) });
}

function openChat(signIn) {
  const { store, actions } = wired(signIn);
  if (sessionInAddress()) actions.conversation.openAddressed();
  followAddress(signIn, actions.conversation);
  store.subscribe((state) =>
    render(
      html`<${KnownAgents.Provider} value=${state.agents}><${Page} state=${state} actions=${actions} /><//>`,
      page,
    ),
  );
  actions.connect();
}

/** A chat's state, and what is done to it; `address` and `kept` are Conversation's and Drafts'. */
function wired(signIn, { address = pageAddress, kept = "drafts" } = {}) {
  const { user, owner } = signIn;
  const store = new Store({ ...nothingKnown(), user });
  const api = new Api(root, () => signIn.tokens());
  const chat = chatOf({ api, store, owner, address, kept });
  /** Who else is told each event: the panels that follow. */
  const hearers = new Set();
  const havePanels = panelsOf({ api, store, hearers, ...chat });
  const connection = connectionOf({ signIn, api, store, hearers, havePanels, ...chat });
  chat.conversation.connection = connection;
  new Costs(api, store);
  const connect = () => {
    connection.connect();
    readMore({ api, store, havePanels, ...chat });
  };
  return { store, actions: { ...actionsOf({ signIn, api, store, ...chat }), connect, havePanels } };
}

function nothingKnown() {
  return {
    ...noAgents,
    limits: null,
    isAdmin: false,
    sharing: null,
    isAuthor: false,
    panels: null,
    sessions: noSessions,
    search: noSearch,
    unread: new Set(),
    undo: null,
    sidebar: sidebarAsLeft(),
    conversation: nothingOpen,
    branches: noBranches,
    costs: noCosts,
    feedback: noFeedback,
    drafts: {},
    unseen: 0,
    uploads: [],
    connection: { phase: "connecting", notice: null },
  };
}

/** What keeps the state; `owner` names the user. */
function chatOf({ api, store, owner, address, kept }) {
  const unread = new Unread(store, owner);
  const sessions = new Sessions(api, store, unread);
  const branches = new Branches(api, store);
  const drafts = new Drafts(store, owner, kept);
  const feedback = new Feedback(api, store);
  const undo = new Undo(store);
  return {
    unread,
    sessions,
    branches,
    drafts,
    agents: new Agents(api, store, owner),
    attachments: new Attachments(api, store, drafts, undo),
    conversation: new Conversation({ api, store, sessions, branches, drafts, feedback, owner, address }),
    undo,
    notifications: new Notifications(store, (unseen) => store.set({ unseen })),
  };
}

function connectionOf({ signIn, api, store, hearers, havePanels, ...chat }) {
  const { sessions, branches, conversation, agents, notifications } = chat;
  let isFollowing = false;
  const connection = new Connection({
    url: socketUrl(new URL(".", document.baseURI)),
    tokens: (wanted) => signIn.tokens(wanted),
    onOpen() {
      conversation.connected();
      // Its answer says when to read the list.
      connection.send({ type: "follow_sessions" });
    },
    onEvent(event) {
      // It comes on each new socket, and after a reload. The page reads first while it connects.
      if (event.type === "following_sessions") {
        if (isFollowing || store.state.agentsError) readMore({ api, store, agents, havePanels });
        isFollowing = true;
      }
      sessions.received(event);
      branches.received(event);
      conversation.received(event);
      notifications.received(event);
      for (const hear of hearers) hear(event);
    },
    onState(state) {
      store.set({ connection: { phase: state.phase, notice: noticeOf(state, signIn) } });
      if (state.phase === "refused") conversation.connectionRefused(state.code);
    },
  });
  signIn.onRenewed = (tokens) => connection.authenticate(tokens);
  addEventListener("online", () => connection.wake());
  addEventListener("offline", () => connection.offline());
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && connection.wake());
  return connection;
}

function followAddress(signIn, conversation) {
  addEventListener("hashchange", () => {
    // What somebody shares is another page, and nothing that is in this one is for another user.
    if (shareInAddress() || adminInAddress() || signIn.isSucceeded?.()) location.reload();
    else conversation.openAddressed();
  });
}

/** What the page's components do to these. */
function actionsOf({ signIn, api, store, unread, drafts, ...chat }) {
  const { sessions, attachments, conversation, undo } = chat;
  return {
    ...chat,
    state: () => store.state,
    entries: new Entries({ store, sessions, conversation, undo }),
    search: new SessionSearch(api, store),
    sidebar: new SidebarView(store),
    /** Opens a session, at the message of that rank if one is given. */
    openSession(id, rank = null) {
      if (id !== store.state.conversation.sessionId) conversation.open(id, { rank });
      else if (rank !== null) conversation.showRank(rank);
    },
    signOut() {
      undo.dismiss();
      drafts.close();
      conversation.close();
      attachments.close();
      unread.forget();
      forgetRows(signIn.owner);
      signIn.signOut();
    },
  };
}

/** What is not known yet, or may have changed while the server could not be reached. */
function readMore({ agents, ...chat }) {
  agents.read();
  if (!chat.store.state.limits) readInfo(chat);
}

/** What resolves to the Panels of the page, whose code is loaded once something is to be shown in one. */
function panelsOf({ api, store, conversation, hearers }) {
  const hear = (hearer) => {
    hearers.add(hearer);
    return () => hearers.delete(hearer);
  };
  let panels = null;
  return () =>
    (panels ??= persistently(async () => {
      const { Panels } = await import("./panels/panels.js");
      return new Panels({ api, store, conversation, hear });
    }));
}

async function readInfo({ api, store, havePanels }) {
  try {
    const { features, sharing = null, is_admin: isAdmin = false, applications, ...info } = await api.info();
    const limits = { ...info.limits, attachment_types: info.attachment_types };
    store.set({ limits, sharing, isAdmin, isAuthor: features.includes("playground") });
    if (applications.some(({ panels }) => panels?.length)) (await havePanels()).learn(applications);
  } catch {
    // The server tells of a limit when it is reached, and the next connection asks again.
  }
}
