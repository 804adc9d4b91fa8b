/**
 * Asks before something that can't be undone. `onConfirm` may fail; the dialog then says why and stays. It can't be
 * confirmed in the first `afterMs`: who has asked for it may have had the person click there.
 */

import { errorText } from "../error-words.js";
import { t } from "../i18n.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

export function ConfirmDialog({ title, text, confirm, afterMs = 0, onConfirm, onClose }) {
  const dialog = useRef(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(afterMs > 0);
  useLayoutEffect(() => dialog.current.showModal(), []);
  useEffect(() => {
    if (!afterMs) return undefined;
    const timer = setTimeout(() => setBusy(false), afterMs);
    return () => clearTimeout(timer);
  }, []);

  const confirmed = async () => {
    setBusy(true);
    try {
      await onConfirm();
      onClose();
    } catch (failure) {
      setError(errorText(failure));
      setBusy(false);
    }
  };
  return html`<dialog
    ref=${dialog}
    class="dialog"
    aria-labelledby="dialog-title"
    data-testid="confirm-dialog"
    onClose=${onClose}
  >
    <h2 id="dialog-title">${title}</h2>
    <p>${text}</p>
    ${error && html`<p class="notice error" role="alert">${error}</p>`}
    <footer>
      <button type="button" class="button" data-testid="cancel" onClick=${() => dialog.current.close()}>
        ${t("Cancel")}
      </button>
      <button type="button" class="button danger" data-testid="confirm" disabled=${busy} onClick=${confirmed}>
        ${confirm}
      </button>
    </footer>
  </dialog>`;
}
