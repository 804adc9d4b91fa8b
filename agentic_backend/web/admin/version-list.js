/** The versions of an agent, the difference of two of them, and the way back. */

import { html } from "../components/html.js";
import { Icon } from "../components/icons.js";
import { lazy } from "../components/lazy.js";
import { formatTime } from "../format.js";
import { t } from "../i18n.js";
import { agentPlace } from "./route.js";

const Difference = lazy(async () => (await import("./code-mirror.js")).Difference);

const ACTIONS = {
  created: t("Created"),
  changed: t("Changed"),
  deleted: t("Deleted"),
  rolled_back: t("Rolled back"),
  enabled: t("Enabled"),
  disabled: t("Disabled"),
  imported: t("Imported"),
};

export function VersionList({ versions, id, actions }) {
  const { items, cursor, error, chosen, texts } = versions;
  const [older, newer] = chosen;
  const isRead = older !== null && texts[older] !== undefined && texts[newer] !== undefined;
  const change = t("From version {older} to version {newer}", { older, newer });
  return html`<div class="versions">
    <div class="admin-bar">
      <a class="button" href=${agentPlace(id)} data-testid="back-to-entry"><${Icon} name="pencil" />${t("Edit")}</a>
    </div>
    ${error && html`<p class="notice error entry-notice" role="alert" data-testid="versions-error">${error}</p>`}
    ${!items && !error && html`<p class="center"><span class="spinner large" role="img" aria-label=${t("Loading")} /></p>`}
    <div class="versions-body">
      <div class="versions-list">
        ${
          items?.length > 0 &&
          html`<div class="version-row version-head muted" aria-hidden="true">
            <span class="version-end">${t("From")}</span><span class="version-end">${t("To")}</span>
          </div>`
        }
        <ol data-testid="versions">
          ${(items ?? []).map(
            (version, index) =>
              html`<${VersionRow} key=${version.version} version=${version} isNewest=${index === 0} chosen=${chosen} actions=${actions} />`,
          )}
        </ol>
        ${
          cursor &&
          html`<button type="button" class="button" onClick=${() => actions.versions.more()}>${t("Older versions")}</button>`
        }
      </div>
      ${
        isRead &&
        html`<section class="versions-difference" aria-label=${change}>
          <h2>${change}</h2>
          ${
            texts[older] === texts[newer]
              ? html`<p class="muted" data-testid="no-difference">${t("Their texts are equal.")}</p>`
              : html`<div class="entry-editor"><${Difference} before=${texts[older]} after=${texts[newer]} label=${change} /></div>`
          }
        </section>`
      }
    </div>
  </div>`;
}

function VersionRow({ version: { version, action, author, timestamp }, isNewest, chosen, actions }) {
  const [older, newer] = chosen;
  const compare = (one, other) => actions.versions.compare(Math.min(one, other), Math.max(one, other));
  const radio = (end, label, onChoose) => html`<label class="version-end">
    <input
      type="radio"
      name=${`version-${end}`}
      checked=${version === (end === "older" ? older : newer)}
      aria-label=${label}
      data-testid=${`${end}-${version}`}
      onChange=${onChoose}
    />
  </label>`;
  return html`<li class="version-row" data-testid="version" data-version=${version}>
    ${radio("older", t("Compare from version {version}", { version }), () => compare(version, Math.max(newer, version)))}
    ${radio("newer", t("Compare to version {version}", { version }), () => compare(Math.min(older, version), version))}
    <span class="version-text">
      <span>${t("Version {version}", { version })} · ${ACTIONS[action] ?? action}</span>
      <span class="muted">${[author, formatTime(timestamp)].filter(Boolean).join(", ")}</span>
    </span>
    ${
      !isNewest &&
      html`<button
        type="button"
        class="button"
        aria-label=${t("Roll back to version {version}", { version })}
        data-testid="roll-back"
        onClick=${() => actions.versions.rollBack(version)}
      >
        <${Icon} name="retry" />${t("Roll back")}
      </button>`
    }
  </li>`;
}
