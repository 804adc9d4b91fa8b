/** A thought or a plan: a card that is open while it is written, and then closed unless its reader has decided. */

import { formatDuration } from "../format.js";
import { html, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Parts } from "./parts.js";

export function Thought({ kind, parts, metadata, streaming }) {
  const [wanted, setWanted] = useState(null);
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
    <div class="card-body"><${Parts} parts=${parts} streaming=${streaming} /></div>
  </details>`;
}

function title(kind, metadata, streaming) {
  if (kind === "plan") return streaming ? "Planning…" : "Plan";
  if (streaming) return "Thinking…";
  return metadata.latency_ms != null ? `Thought for ${formatDuration(metadata.latency_ms)}` : "Thought";
}
