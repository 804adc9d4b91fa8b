/** The administration of agents: their list, or one of them with its versions and a chat to try it. */

import { brand } from "../brand.js";
import { Brand } from "../components/brand.js";
import { html, useEffect, useRef } from "../components/html.js";
import { Icon } from "../components/icons.js";
import { UndoNotice } from "../components/undo-notice.js";
import { t } from "../i18n.js";
import { AgentEditor } from "./agent-editor.js";
import { AgentList } from "./agent-list.js";
import { LIST } from "./route.js";
import { TrialPane } from "./trial-pane.js";
import { VersionList } from "./version-list.js";

export function AdminPage({ state, actions }) {
  const { route, trial } = state;
  const title = titleOf(route, state.catalog.agents ?? []);
  useEffect(() => {
    document.title = `${title} – ${brand.name}`;
  }, [title]);
  useTitleFocus(route);
  const isTried = trial && route.view !== "list";
  return html`<div class=${isTried ? "admin with-trial" : "admin"} data-testid="admin" data-view=${route.view}>
    <header class="head admin-head">
      <a class="admin-back" href=${route.view === "list" ? "." : LIST} data-testid="admin-back">
        <${Icon} name="back" />${route.view === "list" ? t("Conversations") : t("Agents")}
      </a>
      <h1 id="admin-title" tabindex="-1" data-testid="admin-title">${title}</h1>
      <${Brand} />
    </header>
    <main class="admin-main"><${View} state=${state} actions=${actions} /></main>
    ${isTried && html`<${TrialPane} trial=${trial} chatActions=${actions.trial.actions} onClose=${() => actions.trial.close()} />`}
    <${UndoNotice} offer=${state.undo} undo=${actions.undo} onLeave=${focusTitle} />
  </div>`;
}

const focusTitle = () => document.getElementById("admin-title").focus();

/** Each place begins at its title, as a page that is loaded does. */
function useTitleFocus(route) {
  const place = `${route.view}/${route.id}`;
  const before = useRef(place);
  useEffect(() => {
    // An agent that was saved for the first time is written on.
    if (place !== before.current && !document.activeElement?.closest(".code-mirror")) focusTitle();
    before.current = place;
  }, [place]);
}

function View({ state, actions }) {
  const { route } = state;
  if (route.view === "list") return html`<${AgentList} catalog=${state.catalog} actions=${actions} />`;
  if (route.view === "versions")
    return html`<${VersionList} versions=${state.versions} id=${route.id} actions=${actions} />`;
  return html`<${AgentEditor} editing=${state.editing} schema=${state.schema} trial=${state.trial} actions=${actions} />`;
}

function titleOf({ view, id }, agents) {
  if (view === "list") return t("Agents");
  return view === "new" ? t("New agent") : (agents.find((agent) => agent.id === id)?.name ?? id);
}
