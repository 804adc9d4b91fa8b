/** The composition root: wires REST, socket, state and page together, and starts them. */

import { Api } from "./api.js";
import { Page } from "./components/page.js";
import { html, render } from "./components/html.js";
import { Connection } from "./connection.js";
import { Conversation, nothingOpen } from "./conversation.js";
import { adoptToken, sessionInAddress } from "./location.js";
import { Sessions, noSessions } from "./sessions.js";
import { Store } from "./store.js";

const root = new URL("agentic/v1/", document.baseURI);
const socketUrl = new URL("chatbot/query/ws", root);
socketUrl.protocol = root.protocol === "https:" ? "wss:" : "ws:";

let token = adoptToken();

const store = new Store({
  agents: [],
  agentsError: null,
  agentId: null,
  sessions: noSessions,
  conversation: nothingOpen,
  drafts: {},
  connection: { phase: "connecting", notice: null },
});

const api = new Api(root, () => token);
const sessions = new Sessions(api, store);
const conversation = new Conversation(api, store, sessions);
const connection = new Connection({
  url: socketUrl,
  token: () => token,
  onOpen() {
    conversation.connected();
    readLists();
  },
  onEvent: (event) => conversation.received(event),
  onState: (state) => store.set({ connection: state }),
  onRefused: (code) => conversation.connectionRefused(code),
});
conversation.connection = connection;

async function readLists() {
  sessions.refresh();
  try {
    const { agents } = await api.agents();
    const chosen = agents.find(({ id }) => id === store.state.agentId) ?? agents.find((agent) => agent.default);
    store.set({ agents, agentsError: null, agentId: (chosen ?? agents[0])?.id ?? null });
  } catch (error) {
    // Without a valid token the socket closes too, and the page says that.
    store.set({ agentsError: error.status === 401 ? null : error.message });
  }
}

window.addEventListener("hashchange", () => {
  const before = token;
  token = adoptToken();
  if (token !== before) {
    store.set({ sessions: noSessions });
    connection.connect();
  }
  conversation.openAddressed();
});

const actions = {
  sessions,
  conversation,
  connect: () => connection.connect(),
  chooseAgent: (agentId) => store.set({ agentId }),
};

const page = document.getElementById("page");
store.subscribe((state) => render(html`<${Page} state=${state} actions=${actions} />`, page));

connection.connect();
readLists();
if (sessionInAddress()) conversation.openAddressed();
