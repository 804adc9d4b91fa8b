/** A long text that was pasted: it goes along with the message, but not through the field. */

import { formatBytes } from "../format.js";
import { plural, t } from "../i18n.js";
import { html } from "./html.js";
import { IconButton } from "./icons.js";

export function PastedText({ text, onRemove }) {
  const lines = plural(text.split("\n").length, "{count} line", "{count} lines");
  const remove = () => {
    onRemove();
    document.getElementById("composer")?.focus();
  };
  return html`<section class="queued" aria-label=${t("Pasted text")} data-testid="pasted">
    <p>
      <span class="muted">${t("Pasted text")} · ${lines} · ${formatBytes(new Blob([text]).size)}</span>
      <span class="queued-text" dir="auto">${text.slice(0, 200)}</span>
    </p>
    <${IconButton} name="close" label=${t("Remove the pasted text")} data-testid="pasted-remove" onClick=${remove} />
  </section>`;
}
