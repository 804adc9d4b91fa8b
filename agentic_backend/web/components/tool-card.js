/** One tool call and its result: a line that says what was called and what came of it, and all of it when opened. */

import { useFold } from "../folds.js";
import { formatDuration, formatEntries, formatTime, visible, visibleProse } from "../format.js";
import { t } from "../i18n.js";
import { isMedia, titleOf } from "../run.js";
import { Arguments } from "./arguments.js";
import { DECISIONS } from "./decided.js";
import { html, memo, useId } from "./html.js";
import { Icon } from "./icons.js";
import { Parts } from "./parts.js";
import { Result } from "./result.js";
import { Elapsed } from "./working.js";

/** How many characters a line can show on the widest screens. */
const LINE = 500;

/** `title` and `icon` stand for the tool's name and the mark of one that succeeded. */
export const ToolCard = memo(({ call, result, parts = [], state, decision, at, foldKey, title, icon }) => {
  const [unfolded, setUnfolded] = useFold(foldKey);
  const open = Boolean(unfolded);
  const body = useId();
  return html`<section class=${`tool ${state} ${open ? "open" : ""}`} data-testid="tool-card" data-state=${state}
    data-call=${call.call_id} data-tool=${call.name}>
    <button
      type="button"
      class="card-head"
      aria-expanded=${String(open)}
      aria-controls=${body}
      onClick=${() => setUnfolded(!open)}
    >
      <${Mark} state=${state} icon=${icon} />
      <span class="tool-name" title=${visible(call.name)}>${visible(title ?? titleOf(call))}</span>
      ${!open && html`<span class="tool-preview">${formatEntries(call.args, LINE)}</span>`}
      <span class="spacer" />
      ${decision && html`<span class="tag" data-testid="decision">${DECISIONS[decision.action]?.done}</span>`}
      ${state === "running" && html`<${Elapsed} since=${decision?.at ?? at} />`}
      ${result?.latency_ms != null && html`<span class="muted">${formatDuration(result.latency_ms)}</span>`}
      <${Icon} name="chevron" />
    </button>
    <div id=${body} class="card-body">
      ${open && html`<${Details} call=${call} result=${result} decision=${decision} />`}
      ${!open && result && html`<p class="one-line" data-testid="tool-result">${visibleProse(result.content.slice(0, LINE))}</p>`}
      ${open && html`<${Parts} parts=${parts.filter((part) => !isMedia(part))} />`}
      ${state === "missing" && html`<p class="muted">${t("No result")}</p>`}
    </div>
  </section>`;
});

function Details({ call, result, decision }) {
  const edited = decision?.action === "edit" ? decision.args : null;
  return html`${decision && html`<p class="muted" data-testid="decided-by">${decidedBy(decision)}</p>`}
    <h4>${edited ? t("Arguments as the agent gave them") : t("Arguments")}</h4>
    <${Arguments} args=${call.args} testId="tool-args" />
    ${edited && html`<h4>${t("Arguments as they were changed")}</h4><${Arguments} args=${edited} testId="edited-args" />`}
    ${result && html`<h4>${t("Result")}</h4><${Result} result=${result} />`}`;
}

function decidedBy({ action, by, at, message }) {
  const done = DECISIONS[action]?.done ?? t("Decided");
  const who = by ? t("{done} by {who}", { done, who: visible(by) }) : done;
  return [who, at && formatTime(at), message && `“${visibleProse(message)}”`].filter(Boolean).join(" · ");
}

const LABELS = {
  running: t("Running"),
  waiting: t("Waiting"),
  ok: t("Succeeded"),
  failed: t("Failed"),
  missing: t("No result"),
};

function Mark({ state, icon }) {
  const sign = {
    running: html`<span class="spinner" />`,
    ok: html`<${Icon} name=${icon ?? "check"} />`,
    failed: html`<${Icon} name="cross" />`,
    waiting: html`<${Icon} name="hand" />`,
    missing: html`<${Icon} name=${icon ?? "tool"} />`,
  }[state];
  return html`<span class="mark" role="img" aria-label=${LABELS[state]} title=${LABELS[state]}>${sign}</span>`;
}
