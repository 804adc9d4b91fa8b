/** What a user may choose for this page, in this browser: theme, language, direction, notifications. */

import { LANGUAGES, choose, chosen, t } from "../i18n.js";
import { canNotify, notifies, switchNotifications } from "../notifications.js";
import { chooseTheme, chosenTheme } from "../theme.js";
import { html, useLayoutEffect, useRef, useState } from "./html.js";

const THEMES = { system: t("As the system"), light: t("Light"), dark: t("Dark") };
const DIRECTIONS = { ltr: t("Left to right"), rtl: t("Right to left") };

export function SettingsDialog({ onClose }) {
  const dialog = useRef(null);
  const [values, setValues] = useState({ language: chosen("language"), direction: chosen("direction") });
  useLayoutEffect(() => dialog.current.showModal(), []);
  const changed = values.language !== chosen("language") || values.direction !== chosen("direction");
  const apply = () => {
    choose("language", values.language);
    choose("direction", values.direction);
    location.reload();
  };
  const select = (what, label, options) => html`<label class="field">
    <span>${label}</span>
    <select
      data-testid=${`choose-${what}`}
      value=${values[what] ?? ""}
      onChange=${({ target }) => setValues({ ...values, [what]: target.value || null })}
    >
      <option value="">${t("As the browser")}</option>
      ${Object.entries(options).map(
        ([value, name]) => html`<option key=${value} value=${value} lang=${what === "language" ? value : null}>
          ${name}
        </option>`,
      )}
    </select>
  </label>`;
  return html`<dialog
    ref=${dialog}
    class="dialog"
    aria-labelledby="settings-title"
    data-testid="settings"
    onClose=${onClose}
  >
    <h2 id="settings-title">${t("Settings")}</h2>
    <label class="field">
      <span>${t("Theme")}</span>
      <select
        data-testid="choose-theme"
        value=${chosenTheme()}
        onChange=${({ target }) => chooseTheme(target.value)}
      >
        ${Object.entries(THEMES).map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}
      </select>
    </label>
    ${select("language", t("Language"), LANGUAGES)} ${select("direction", t("Text direction"), DIRECTIONS)}
    <${Notifying} />
    <footer>
      <button type="button" class="button" onClick=${() => dialog.current.close()}>${t("Close")}</button>
      ${
        changed &&
        html`<button type="button" class="button primary" data-testid="apply-settings" onClick=${apply}>
          ${t("Apply and reload")}
        </button>`
      }
    </footer>
  </dialog>`;
}

/** The browser is asked for its permission only when this is switched on. */
function Notifying() {
  const [isOn, setOn] = useState(notifies);
  const [isRefused, setRefused] = useState(false);
  const switched = async ({ target }) => {
    const wanted = target.checked;
    const granted = await switchNotifications(wanted);
    setOn(granted);
    setRefused(wanted && !granted);
    // The box shows what is, and not what was wished.
    target.checked = granted;
  };
  if (!canNotify) return null;
  return html`<label class="check">
      <input type="checkbox" data-testid="notifications" checked=${isOn} onChange=${switched} />
      <span>${t("Tell me when a long answer ends while I look elsewhere")}</span>
    </label>
    ${isRefused && html`<p class="muted" role="status">${t("The browser doesn't allow notifications of this page.")}</p>`}`;
}
