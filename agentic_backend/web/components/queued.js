/** What is asked next, when that which runs has ended well. */

import { t } from "../i18n.js";
import { html } from "./html.js";
import { IconButton } from "./icons.js";

export function Queued({ queued: { text }, running, conversation }) {
  const toComposer = (change) => {
    change();
    document.getElementById("composer")?.focus();
  };
  return html`<section class="queued" aria-label=${t("Next message")} data-testid="queued">
    <p>
      <span class="muted">${running ? t("Next") : t("Not sent: the answer before it did not end well")}</span>
      <span class="queued-text" data-testid="queued-text" dir="auto">${text}</span>
    </p>
    ${
      !running &&
      html`<button
        type="button"
        class="button"
        data-testid="queued-send"
        onClick=${() => toComposer(() => conversation.sendQueued())}
      >
        ${t("Send now")}
      </button>`
    }
    <${IconButton}
      name="pencil"
      label=${t("Edit the next message")}
      data-testid="queued-edit"
      onClick=${() => toComposer(() => conversation.unqueue())}
    />
    <${IconButton}
      name="close"
      label=${t("Remove the next message")}
      data-testid="queued-remove"
      onClick=${() => toComposer(() => conversation.unqueue({ drop: true }))}
    />
  </section>`;
}
