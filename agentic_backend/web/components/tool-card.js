/** One tool call and its result: a line that says what was called and what came of it, and all of it when opened. */

import { formatDuration, formatEntries, formatJson } from "../format.js";
import { DECISIONS } from "./decided.js";
import { html, memo, useId, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Parts } from "./parts.js";

export const ToolCard = memo(({ call, result, parts = [], state, decision }) => {
  const [open, setOpen] = useState(false);
  const body = useId();
  return html`<section class=${`card tool ${state} ${open ? "open" : ""}`} data-testid="tool-card" data-state=${state}
    data-call=${call.call_id}>
    <button
      type="button"
      class="card-head"
      aria-expanded=${String(open)}
      aria-controls=${body}
      onClick=${() => setOpen(!open)}
    >
      <${Mark} state=${state} />
      <span class="tool-name">${call.name}</span>
      ${!open && html`<span class="tool-preview">${formatEntries(call.args)}</span>`}
      <span class="spacer" />
      ${decision && html`<span class="tag" data-testid="decision">${DECISIONS[decision.action]?.done}</span>`}
      ${result?.latency_ms != null && html`<span class="muted">${formatDuration(result.latency_ms)}</span>`}
      <${Icon} name="chevron" />
    </button>
    <div id=${body} class="card-body">
      ${open && html`<h4>Arguments</h4><pre class="json" data-testid="tool-args">${formatJson(call.args)}</pre>`}
      ${
        open &&
        decision?.args &&
        html`<h4>Arguments as you changed them</h4>
          <pre class="json" data-testid="edited-args">${formatJson(decision.args)}</pre>`
      }
      ${open && result && html`<h4>Result</h4>`}
      ${result && html`<pre class=${open ? "json" : "one-line"} data-testid="tool-result">${result.content}</pre>`}
      <${Parts} parts=${parts.filter(({ type }) => open || type === "image_url" || type === "link")} />
      ${state === "missing" && html`<p class="muted">No result</p>`}
    </div>
  </section>`;
});

const LABELS = { running: "Running", waiting: "Waiting", ok: "Succeeded", failed: "Failed", missing: "No result" };

function Mark({ state }) {
  const sign = {
    running: html`<span class="spinner" />`,
    ok: html`<${Icon} name="check" />`,
    failed: html`<${Icon} name="cross" />`,
    waiting: html`<${Icon} name="hand" />`,
    missing: html`<${Icon} name="tool" />`,
  }[state];
  return html`<span class="mark" role="img" aria-label=${LABELS[state]} title=${LABELS[state]}>${sign}</span>`;
}
