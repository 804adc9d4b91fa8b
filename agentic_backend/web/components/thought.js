/** A thought or a plan: a card that is open while it is written, and then closed unless its reader has decided. */

import { useFold } from "../folds.js";
import { formatDuration } from "../format.js";
import { t } from "../i18n.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";
import { Parts } from "./parts.js";

export function Thought({ kind, parts, metadata, streaming, foldKey }) {
  const [wanted, setWanted] = useFold(foldKey);
  const open = wanted ?? (streaming || kind === "plan");
  const toggle = (event) => {
    event.preventDefault();
    setWanted(!open);
  };
  return html`<details class="card thought" open=${open} data-testid=${kind}>
    <summary class="card-head" onClick=${toggle}>
      <span class="mark">${streaming ? html`<span class="spinner" />` : html`<${Icon} name="bulb" />`}</span>
      <span>${title(kind, metadata, streaming)}</span>
      <span class="spacer" />
      <${Icon} name="chevron" />
    </summary>
    <div class="card-body">${open && html`<${Parts} parts=${parts} streaming=${streaming} />`}</div>
  </details>`;
}

function title(kind, metadata, streaming) {
  if (kind === "plan") return streaming ? t("Planning…") : t("Plan");
  if (streaming) return t("Thinking…");
  const { latency_ms: took } = metadata;
  return took != null ? t("Thought for {duration}", { duration: formatDuration(took) }) : t("Thought");
}
