/** A line under an answer for the author of its agent, which unfolds into the run; see RunPanel. */

import { t } from "../i18n.js";
import { html, useId, useState } from "./html.js";
import { Icon } from "./icons.js";
import { lazy } from "./lazy.js";

const RunPanel = lazy(async () => (await import("./run-panel.js")).RunPanel);

export function Playground({ exchange, conversation }) {
  const [open, setOpen] = useState(false);
  const body = useId();
  return html`<section class=${`card trust ${open ? "open" : ""}`} data-testid="playground">
    <button
      type="button"
      class="card-head"
      aria-expanded=${String(open)}
      aria-controls=${body}
      onClick=${() => setOpen(!open)}
    >
      <span class="mark"><${Icon} name="sliders" /></span>
      <span>${t("Look into the run")}</span>
      <span class="spacer" />
      <${Icon} name="chevron" />
    </button>
    <div id=${body} class="card-body">${open && html`<${RunPanel} exchange=${exchange} conversation=${conversation} />`}</div>
  </section>`;
}
