/** The list of keyboard shortcuts. */

import { t } from "../i18n.js";
import { SHORTCUTS, keyName, switchSingleKeys, usesSingleKeys } from "../shortcuts.js";
import { html, useLayoutEffect, useRef } from "./html.js";

export function ShortcutsDialog({ onClose }) {
  const dialog = useRef(null);
  useLayoutEffect(() => dialog.current.showModal(), []);
  return html`<dialog
    ref=${dialog}
    class="dialog shortcuts"
    aria-labelledby="shortcuts-title"
    data-testid="shortcuts"
    onClose=${onClose}
  >
    <h2 id="shortcuts-title">${t("Keyboard shortcuts")}</h2>
    <dl>
      ${SHORTCUTS.map(
        ({ keys, text }) =>
          html`<div key=${text}>
            <dt>${text}</dt>
            <dd>${keys.map((key) => html`<kbd key=${key}>${keyName(key)}</kbd>`)}</dd>
          </div>`,
      )}
    </dl>
    <label class="check">
      <input
        type="checkbox"
        data-testid="single-keys"
        defaultChecked=${usesSingleKeys()}
        onChange=${({ target }) => switchSingleKeys(target.checked)}
      />
      <span>${t("Use the keys / and ?")}</span>
    </label>
    <footer>
      <button type="button" class="button" onClick=${() => dialog.current.close()}>${t("Close")}</button>
    </footer>
  </dialog>`;
}
