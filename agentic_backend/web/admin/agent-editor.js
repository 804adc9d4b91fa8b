/** One entry of the catalog: its YAML, what is wrong with it, and what somebody else has made of it meanwhile. */

import { html, useCallback, useRef } from "../components/html.js";
import { Icon } from "../components/icons.js";
import { lazy } from "../components/lazy.js";
import { plural, t } from "../i18n.js";
import { isDirty, isReadOnly } from "./editing.js";
import { LIST, NEW_AGENT, versionsPlace } from "./route.js";
import { TEMPLATES } from "./templates.js";

const YamlEditor = lazy(async () => (await import("./code-mirror.js")).YamlEditor);
const Difference = lazy(async () => (await import("./code-mirror.js")).Difference);

export function AgentEditor({ editing, schema, trial, actions }) {
  const editor = useRef(null);
  /** Whether the focus waits for the editor to be loaded. */
  const isDue = useRef(false);
  const onReady = useCallback((ready) => {
    editor.current = ready;
    if (isDue.current) ready.focus();
  }, []);
  const { id, entry, loading, loadError, isMissing, conflict, isRestored, error, problems } = editing;
  if (loading) return html`<p class="center"><span class="spinner large" role="img" aria-label=${t("Loading")} /></p>`;
  if (loadError)
    return html`<div class="center" role="alert" data-testid="entry-error">
      <p>${loadError}</p>
      ${
        isMissing
          ? html`<a class="button" href=${LIST}>${t("All agents")}</a>`
          : html`<button type="button" class="button" onClick=${() => actions.editing.open(id)}>${t("Try again")}</button>`
      }
    </div>`;
  const readOnly = isReadOnly(editing);
  // What is pressed to change the text goes with it: the focus goes on to the text.
  const then = (act) => {
    act();
    isDue.current = !editor.current;
    editor.current?.focus();
  };
  return html`<div class="entry">
    <${Bar} editing=${editing} trial=${trial} actions=${actions} then=${then} />
    ${
      id === null &&
      !editing.typed &&
      html`<${Templates} onChoose=${(yaml) => then(() => actions.editing.fill(yaml))} />`
    }
    ${
      readOnly &&
      html`<p class="notice entry-notice" role="status" data-testid="read-only">
        <${Icon} name="info" />
        <span class="notice-text">${t("This agent is in the catalog file, and is changed there.")}</span>
      </p>`
    }
    ${
      isRestored &&
      !conflict &&
      html`<p class="notice entry-notice" role="status" data-testid="restored">
        <${Icon} name="info" /><span class="notice-text">${t("What you had typed and not saved is here again.")}</span>
      </p>`
    }
    ${conflict && html`<${Conflict} editing=${editing} actions=${actions} then=${then} />`}
    ${error && html`<p class="notice error entry-notice" role="alert" data-testid="save-error">${error}</p>`}
    <div class="entry-editor">
      <${YamlEditor}
        text=${editing.text}
        revision=${editing.revision}
        isReadOnly=${readOnly}
        schema=${schema}
        problems=${problems}
        check=${(text) => actions.editing.check(text)}
        onType=${(text) => actions.editing.typed(text)}
        onSave=${() => !readOnly && !conflict && actions.editing.save()}
        onReady=${onReady}
      />
    </div>
    <${Problems} problems=${problems} entry=${entry} onGo=${({ line, column }) => editor.current?.goTo(line, column)} />
  </div>`;
}

function Bar({ editing, trial, actions, then }) {
  const { id, entry, saving, conflict } = editing;
  const dirty = isDirty(editing);
  const readOnly = isReadOnly(editing);
  const copy = () => {
    location.assign(NEW_AGENT);
    // The new agent is opened by its address; its text follows.
    addEventListener("hashchange", () => actions.editing.fill(entry.yaml), { once: true });
  };
  return html`<div class="admin-bar">
    ${
      readOnly
        ? html`<button type="button" class="button" data-testid="copy-entry" onClick=${copy}>
            <${Icon} name="copy" />${t("Begin a new agent with it")}
          </button>`
        : html`<button
            type="button"
            class="button primary"
            data-testid="save-entry"
            disabled=${!dirty || saving || Boolean(conflict)}
            onClick=${() => actions.editing.save()}
          >
            ${saving ? html`<span class="spinner" />` : html`<${Icon} name="check" />`}${t("Save")}
          </button>`
    }
    ${
      dirty &&
      !readOnly &&
      !conflict &&
      html`<button type="button" class="button" data-testid="discard" onClick=${() => then(() => actions.editing.discard())}>
        ${t("Discard changes")}
      </button>`
    }
    <span class="muted" role="status" data-testid="entry-state">${stateOf(editing, dirty)}</span>
    <span class="spacer" />
    ${
      entry?.version &&
      html`<a class="button" href=${versionsPlace(id)} data-testid="show-versions">
        <${Icon} name="retry" />${t("Versions")}
      </a>`
    }
    <button
      type="button"
      class="button"
      aria-pressed=${String(Boolean(trial))}
      disabled=${!entry}
      title=${entry ? undefined : t("Save it first.")}
      data-testid="try-agent"
      onClick=${() => (trial ? actions.trial.close() : actions.trial.open(id))}
    >
      <${Icon} name="bulb" />${t("Try it")}
    </button>
  </div>`;
}

function stateOf({ entry, saving }, dirty) {
  if (saving) return t("Saving…");
  if (dirty) return entry ? t("Not saved, based on version {version}", { version: entry.version }) : t("Not saved");
  return entry?.version ? t("Version {version}", { version: entry.version }) : "";
}

function Templates({ onChoose }) {
  return html`<div class="templates" role="group" aria-labelledby="templates-title">
    <h2 id="templates-title">${t("Begin with")}</h2>
    ${TEMPLATES.map(
      ({ name, yaml }) =>
        html`<button key=${name} type="button" class="button" data-testid="template" onClick=${() => onChoose(yaml)}>
          ${name}
        </button>`,
    )}
  </div>`;
}

/** Both texts are there until one of them is chosen. */
function Conflict({ editing: { conflict, typed }, actions, then }) {
  const { version, updated_by: by } = conflict;
  const said = by
    ? t("{user} has saved version {version} meanwhile.", { user: by, version })
    : t("Version {version} was saved meanwhile.", { version });
  return html`<section class="conflict" role="alert" data-testid="conflict" aria-label=${t("Conflict")}>
    <p><strong>${said}</strong> ${t("This is what yours would change in it.")}</p>
    <div class="conflict-difference">
      <${Difference} before=${conflict.yaml} after=${typed} label=${t("What yours would change")} />
    </div>
    <footer>
      <button type="button" class="button" data-testid="take-theirs" onClick=${() => then(() => actions.editing.discard())}>
        ${t("Take theirs")}
      </button>
      <button type="button" class="button primary" data-testid="save-mine" onClick=${() => then(() => actions.editing.overwrite())}>
        ${t("Save mine over it")}
      </button>
    </footer>
  </section>`;
}

function Problems({ problems, onGo }) {
  return html`<section class="problems" aria-label=${t("Problems")} data-testid="problems">
    <p class="visually-hidden" role="status">
      ${plural(problems.length, "{count} problem", "{count} problems")}
    </p>
    <ul>
      ${problems.map(
        (problem, index) =>
          html`<li key=${index}>
            <button type="button" class="problem-row" data-testid="problem" onClick=${() => onGo(problem)}>
              <${Icon} name="warning" />
              ${problem.line && html`<span class="muted">${t("Line {line}", { line: problem.line })}</span>`}
              <span>${problem.message}</span>
            </button>
          </li>`,
      )}
    </ul>
  </section>`;
}
