/** An exchange that was interrupted: what happened, and the ways on. */

import { html, useState } from "./html.js";
import { Icon } from "./icons.js";

const NOTHING_LEFT = "checkpoint_missing";

/** `onContinue` may fail; `onRewrite` puts the question back to where it was written. */
export function Interruption({ content, onContinue, onRewrite }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const isLost = failure?.code === NOTHING_LEFT;
  const goOn = async () => {
    setBusy(true);
    setFailure(null);
    try {
      // What follows is the new exchange, in whose presence this one offers nothing any more.
      await onContinue();
    } catch (error) {
      setFailure(error);
      setBusy(false);
    }
  };
  return html`<div class="notice error" role="alert" data-testid="error-notice">
    <${Icon} name="warning" />
    <span class="notice-text">${failure ? said(failure) : content || "The answer was interrupted."}</span>
    ${
      onContinue &&
      !isLost &&
      html`<button type="button" class="button" data-testid="continue" disabled=${busy} onClick=${goOn}>
        ${busy ? html`<span class="spinner" />` : html`<${Icon} name="retry" />`}${busy ? "Continuing…" : "Continue"}
      </button>`
    }
    ${
      isLost &&
      html`<button type="button" class="button" data-testid="ask-again" onClick=${onRewrite}>
        <${Icon} name="pencil" />Ask again
      </button>`
    }
  </div>`;
}

const said = ({ code, message }) =>
  code === NOTHING_LEFT ? "Nothing of it was kept to continue from. You can ask again." : message;
