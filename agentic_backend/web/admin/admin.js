/** Where the administration begins: its styles, its state, and its page. Loaded when its address is opened. */

import { KnownAgents } from "../components/agent-mark.js";
import { html, render } from "../components/html.js";
import { styled } from "../own-files.js";
import { persistently } from "../persistently.js";
import { Store } from "../store.js";
import { Undo } from "../undo.js";
import { AdminPage } from "./admin-page.js";
import { stateOf } from "./agent-list.js";
import { CatalogApi } from "./catalog-api.js";
import { Catalog, noCatalog } from "./catalog.js";
import { Editing, nothingEdited } from "./editing.js";
import { agentPlace, route } from "./route.js";
import { Trial } from "./trial.js";
import { Versions, noVersions } from "./versions.js";

const REREAD_MS = 3_000;

/** `newChat` makes a chat for trials; `owner` names the user. */
export async function openAdmin({ page, api: calls, owner, newChat }) {
  // The page begins without them.
  await persistently(() => styled("styles/admin.css"));
  const api = new CatalogApi(calls);
  const store = new Store({
    route: route(),
    catalog: noCatalog,
    editing: nothingEdited,
    versions: noVersions,
    schema: null,
    trial: null,
    undo: null,
  });
  const undo = new Undo(store);
  const catalog = new Catalog(api, store, undo);
  const trial = new Trial(store, newChat);
  const saved = (entry) => {
    catalog.read();
    trial.saved(entry);
    const isNew = store.state.route.view === "new";
    if (isNew && store.state.editing.id === entry.id) location.replace(agentPlace(entry.id));
  };
  const editing = new Editing({ api, store, owner, onSaved: saved });
  const versions = new Versions({ api, store, undo, onRolledBack: () => catalog.read() });
  const actions = { api, catalog, editing, versions, trial, undo };
  const shown = () => {
    const now = route();
    // Beyond the administration is another page.
    if (!now) return location.reload();
    store.set({ route: now });
    opened(now, store, actions);
  };
  addEventListener("hashchange", shown);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState !== "visible") return;
    // Others change agents meanwhile.
    catalog.read();
    if (store.state.route.view === "agent" && store.state.editing.entry) editing.refresh();
  });
  setInterval(() => {
    // An agent that was just saved is served within seconds, or has a problem then.
    const isWaiting = store.state.catalog.agents?.some((agent) => stateOf(agent) === "waiting");
    const isSeen = document.visibilityState === "visible" && store.state.route.view === "list";
    if (isWaiting && isSeen) catalog.read();
  }, REREAD_MS);
  shown();
  if (store.state.route.view !== "list") catalog.read();
  readSchema(api, store);
  store.subscribe((state) =>
    render(
      html`<${KnownAgents.Provider} value=${state.catalog.agents ?? []}><${AdminPage} state=${state} actions=${actions} /><//>`,
      page,
    ),
  );
}

function opened({ view, id = null }, store, { catalog, editing, versions }) {
  if (view === "list") return catalog.read();
  if (view === "versions") return versions.open(id);
  const { id: openId, entry } = store.state.editing;
  return entry && openId === id ? editing.refresh() : editing.open(id);
}

async function readSchema(api, store) {
  try {
    store.set({ schema: await api.schema() });
  } catch {
    // One can write without being told what may be written.
  }
}
