/** What was just done, and the way back. */

import { t } from "../i18n.js";
import { html } from "./html.js";
import { IconButton } from "./icons.js";

const focusComposer = () => document.getElementById("composer")?.focus();

/** `onLeave` moves the focus to what one goes on with. */
export function UndoNotice({ offer, undo, onLeave = focusComposer }) {
  const held = { onMouseEnter: () => undo.hold(), onFocusIn: () => undo.hold() };
  const released = { onMouseLeave: () => undo.release(), onFocusOut: () => undo.release() };
  // The notice goes, and the focus with it.
  const left = (act) => () => {
    onLeave();
    act();
  };
  return html`<div class="undo-area" role="status">
    ${
      offer &&
      html`<div class="undo-notice" data-testid="undo-notice" ...${held} ...${released}>
        <span dir="auto">${offer.text}</span>
        ${offer.canUndo && html`<button type="button" class="button" data-testid="undo" onClick=${left(() => undo.take())}>${t("Undo")}</button>`}
        <${IconButton} name="close" label=${t("Dismiss")} onClick=${left(() => undo.dismiss())} />
      </div>`
    }
  </div>`;
}
