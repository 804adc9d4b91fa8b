/** All agents of the catalog: where each comes from, whether it is served, who has changed it, and what can be done. */

import { AgentMark } from "../components/agent-mark.js";
import { ConfirmDialog } from "../components/confirm-dialog.js";
import { html, useState } from "../components/html.js";
import { Icon } from "../components/icons.js";
import { Menu } from "../components/menu.js";
import { formatTime } from "../format.js";
import { plural, t } from "../i18n.js";
import { ImportDialog } from "./import-dialog.js";
import { NEW_AGENT, agentPlace, versionsPlace } from "./route.js";

export function AgentList({ catalog, actions }) {
  const { agents, wins, editable, error, filter } = catalog;
  const [isImporting, setImporting] = useState(false);
  const shown = (agents ?? []).filter((agent) => matches(agent, filter));
  return html`<div class="admin-list">
    <div class="admin-bar">
      <input
        type="search"
        placeholder=${t("Filter agents")}
        aria-label=${t("Filter agents")}
        data-testid="filter-agents"
        value=${filter}
        onInput=${({ target }) => actions.catalog.filter(target.value)}
      />
      ${editable && html`<${MakeAgents} actions=${actions} onImport=${() => setImporting(true)} />`}
    </div>
    ${
      agents &&
      !editable &&
      html`<p class="notice entry-notice" data-testid="not-editable">
        <${Icon} name="info" />
        <span class="notice-text">
          ${t("Agents are only in the catalog file: the setting agents.database.enabled is off.")}
        </span>
      </p>`
    }
    ${
      error &&
      html`<p class="notice error" role="alert" data-testid="catalog-error">
        <span>${error}</span>
        <button type="button" class="button" onClick=${() => actions.catalog.read()}>${t("Try again")}</button>
      </p>`
    }
    <p class="visually-hidden" role="status">${agents ? plural(shown.length, "{count} agent", "{count} agents") : ""}</p>
    ${!agents && !error && html`<p class="center"><span class="spinner large" role="img" aria-label=${t("Loading")} /></p>`}
    ${agents && shown.length === 0 && html`<p class="muted admin-none">${t("No agent is like this.")}</p>`}
    <ul class="agent-rows" data-testid="agent-rows">
      ${shown.map(
        (agent) =>
          html`<${AgentRow} key=${`${agent.source}/${agent.id}`} agent=${agent} wins=${wins} actions=${actions} />`,
      )}
    </ul>
    ${isImporting && html`<${ImportDialog} catalog=${actions.catalog} onClose=${() => setImporting(false)} />`}
  </div>`;
}

function MakeAgents({ actions, onImport }) {
  return html`<a class="button primary" href=${NEW_AGENT} data-testid="new-agent">
      <${Icon} name="plus" />${t("New agent")}
    </a>
    <${Menu}
      label=${t("More of the catalog")}
      testId="catalog-menu"
      items=${[
        { label: t("Import…"), icon: "share", testId: "import", onSelect: onImport },
        { label: t("Export as YAML"), icon: "download", testId: "export", onSelect: () => actions.catalog.export() },
      ]}
    />`;
}

function AgentRow({ agent, wins, actions }) {
  const { id, name, description, source, version, updated_at: at, updated_by: by, problems = [] } = agent;
  const [isDeleting, setDeleting] = useState(false);
  const state = stateOf(agent);
  return html`<li class="agent-row" data-testid="agent-row" data-agent=${id} data-source=${source} data-state=${state}>
    <${AgentMark} id=${id} />
    <div class="agent-row-text">
      <a href=${agentPlace(id)} data-testid="edit-agent" dir="auto">${name || id}</a>
      <span class="muted agent-row-id">${id}</span>
      ${description && html`<p class="muted" dir="auto">${description}</p>`}
      ${problems.length > 0 && html`<p class="problem">${problems[0].message}</p>`}
    </div>
    <div class="agent-row-facts">
      <span class="tag">${SOURCES[source]}</span>
      <span class=${`tag state-${state}`} data-testid="agent-state">${STATES[state]}</span>
      ${
        version &&
        html`<span class="muted">
          <a href=${versionsPlace(id)} data-testid="agent-version">${t("Version {version}", { version })}</a>
          ${at && ` · ${[by, formatTime(at)].filter(Boolean).join(", ")}`}
        </span>`
      }
      ${state === "hidden" && html`<span class="muted">${t("The setting lets {source} win.", { source: SOURCES[wins] })}</span>`}
    </div>
    ${
      source === "database" &&
      html`<${Menu}
        label=${t("More of {agent}", { agent: name || id })}
        testId="agent-menu"
        items=${[
          agent.enabled
            ? { label: t("Disable"), icon: "stop", testId: "disable", onSelect: () => actions.catalog.switch(agent, false) }
            : { label: t("Enable"), icon: "check", testId: "enable", onSelect: () => actions.catalog.switch(agent, true) },
          { separator: true },
          {
            label: t("Delete…"),
            icon: "trash",
            danger: true,
            testId: "delete-agent",
            onSelect: () => setDeleting(true),
          },
        ]}
      />`
    }
    ${
      isDeleting &&
      html`<${ConfirmDialog}
        title=${t("Delete {agent}?", { agent: name || id })}
        text=${t("Nobody can ask it any more. Its versions are kept, and conversations with it can be read.")}
        confirm=${t("Delete")}
        onConfirm=${async () => {
          await actions.catalog.remove(agent);
          // The row is gone, and the button in it that had the focus.
          document.getElementById("admin-title").focus();
        }}
        onClose=${() => setDeleting(false)}
      />`
    }
  </li>`;
}

const SOURCES = { yaml: t("File"), database: t("Database") };
const STATES = {
  hidden: t("Hidden by the other source"),
  disabled: t("Disabled"),
  problems: t("Has problems"),
  served: t("Served"),
  waiting: t("Not served yet"),
};

/** What the list says of an agent: a key of `STATES`. */
export function stateOf({ hidden_by: hiddenBy, enabled, served, problems = [] }) {
  if (hiddenBy) return "hidden";
  if (!enabled) return "disabled";
  if (problems.length) return "problems";
  return served ? "served" : "waiting";
}

function matches({ id, name = "", description = "", updated_by: by }, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [id, name, description, by].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}
