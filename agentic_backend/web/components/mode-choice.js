/** Whether a new conversation is kept, or a temporary one of which nothing is. */

import { t } from "../i18n.js";
import { html } from "./html.js";

export function ModeChoice({ isQuery, onChoose }) {
  const button = (mode, label) =>
    html`<button
      type="button"
      class=${`mode ${mode}`}
      aria-pressed=${String(isQuery === (mode === "query"))}
      data-testid=${`mode-${mode}`}
      onClick=${() => onChoose(mode)}
    >
      ${label}
    </button>`;
  return html`<div class="modes" role="group" aria-label=${t("Mode")}>
    ${button("chat", t("Chat"))}${button("query", t("Temporary chat"))}
  </div>`;
}
