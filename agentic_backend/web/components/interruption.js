/** An exchange that was interrupted: what happened, and the ways on. */

import { errorText } from "../error-words.js";
import { t } from "../i18n.js";
import { html, useState } from "./html.js";
import { Icon } from "./icons.js";
import { ErrorFacts } from "./notices.js";

const NOTHING_LEFT = "checkpoint_missing";

/** `onContinue`, which may fail, is null where nothing is left to continue from; `onAskAgain` where something follows. */
export function Interruption({ error, onContinue, onAskAgain }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const canContinue = onContinue && failure?.code !== NOTHING_LEFT;
  const goOn = async () => {
    setBusy(true);
    setFailure(null);
    try {
      // What follows is the new exchange, in whose presence this one offers nothing any more.
      await onContinue();
    } catch (refused) {
      setFailure(refused);
      setBusy(false);
    }
  };
  return html`<div class="notice error" role="alert" data-testid="error-notice" data-code=${error.code}>
    <${Icon} name="warning" />
    <div class="notice-text">
      <p>${failure ? errorText(failure) : error.content || error.code ? errorText(error) : t("The answer was interrupted.")}</p>
      ${onAskAgain && html`<p class="muted" data-testid="next-step">${nextStep(canContinue)}</p>`}
      <${ErrorFacts} code=${failure?.code ?? error.code} requestId=${failure?.requestId ?? error.request_id} />
    </div>
    ${
      canContinue &&
      html`<button type="button" class="button primary" data-testid="continue" disabled=${busy} onClick=${goOn}>
        ${busy ? html`<span class="spinner" />` : html`<${Icon} name="retry" />`}${busy ? t("Continuing…") : t("Continue")}
      </button>`
    }
    ${
      onAskAgain &&
      !canContinue &&
      html`<button type="button" class="button" data-testid="ask-again" onClick=${onAskAgain}>
        <${Icon} name="retry" />${t("Ask again")}
      </button>`
    }
  </div>`;
}

const nextStep = (canContinue) =>
  canContinue
    ? t("Continue from the last step that was kept; no tool that has ended runs again.")
    : t("Nothing of it was kept to continue from. You can ask again.");
