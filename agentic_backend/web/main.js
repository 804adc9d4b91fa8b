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
import { sessionInAddress, shareInAddress } from "./location.js";
import { Notifications } from "./notifications.js";
import { nothingOpen } from "./open-state.js";
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

function openChat(signIn) {
  const store = new Store({
    user: signIn.user,
    ...noAgents,
    limits: null,
    sharing: null,
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
  });

  const api = new Api(root, () => signIn.tokens());
  const unread = new Unread(store, signIn.owner);
  const sessions = new Sessions(api, store, unread);
  const agents = new Agents(api, store, signIn.owner);
  const drafts = new Drafts(store, signIn.owner);
  const attachments = new Attachments(api, store, drafts);
  const branches = new Branches(api, store);
  const conversation = new Conversation({ api, store, sessions, branches, drafts, owner: signIn.owner });
  const undo = new Undo(store);
  let wasOpen = false;
  const readMore = () => {
    agents.read();
    if (!store.state.limits) readLimits(api, store);
  };
  const connection = new Connection({
    url: socketUrl(new URL(".", document.baseURI)),
    tokens: (wanted) => signIn.tokens(wanted),
    onOpen() {
      conversation.connected();
      // Its answer says when to read the list.
      connection.send({ type: "follow_sessions" });
      // What has been read since the page began is as new as this.
      if (wasOpen || store.state.agentsError) readMore();
      wasOpen = true;
    },
    onEvent(event) {
      sessions.received(event);
      branches.received(event);
      conversation.received(event);
      // Deleted in another window.
      const { sessionId } = store.state.conversation;
      if (event.type === "session_deleted" && event.session_id === sessionId) conversation.startNew({ replace: true });
    },
    onState(state) {
      store.set({ connection: { phase: state.phase, notice: noticeOf(state, signIn) } });
      if (state.phase === "refused") conversation.connectionRefused(state.code);
    },
  });
  conversation.connection = connection;
  window.addEventListener("online", () => connection.wake());
  window.addEventListener("offline", () => connection.offline());
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && connection.wake());
  signIn.onRenewed = (tokens) => connection.authenticate(tokens);

  window.addEventListener("hashchange", () => {
    if (shareInAddress()) return location.reload();
    if (signIn.adoptAnother?.()) {
      store.set({ sessions: noSessions, search: noSearch });
      unread.belongTo(signIn.owner);
      agents.belongTo(signIn.owner);
      drafts.belongTo(signIn.owner);
      conversation.belongTo(signIn.owner);
      connection.connect();
    }
    conversation.openAddressed();
  });

  const actions = {
    ...actionsOn({ api, store, sessions, conversation, undo }),
    branches,
    attachments,
    connect: () => connection.connect(),
    agents,
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
  conversation.feedback = new Feedback(api, store);
  new Costs(api, store);
  new Notifications(store, (unseen) => store.set({ unseen }));
  store.subscribe((state) =>
    render(
      html`<${KnownAgents.Provider} value=${state.agents}><${Page} state=${state} actions=${actions} /><//>`,
      page,
    ),
  );

  connection.connect();
  readMore();
  if (sessionInAddress()) conversation.openAddressed();
}

/** What the page's components do to these. */
function actionsOn({ api, store, sessions, conversation, undo }) {
  return {
    state: () => store.state,
    sessions,
    conversation,
    undo,
    entries: new Entries({ store, sessions, conversation, undo }),
    search: new SessionSearch(api, store),
    sidebar: new SidebarView(store),
    /** Opens a session, at the message of that rank if one is given. */
    openSession(id, rank = null) {
      if (id !== store.state.conversation.sessionId) conversation.open(id, { rank });
      else if (rank !== null) conversation.showRank(rank);
    },
  };
}

async function readLimits(api, store) {
  try {
    const { limits, sharing = null } = await api.info();
    store.set({ limits, sharing });
  } catch {
    // The server tells of a limit when it is reached, and the next connection asks again.
  }
}
