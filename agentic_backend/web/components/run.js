/** The run of an exchange: one line that tells what was done, and unfolds into the tree of agents and their steps. */

import { useFold } from "../folds.js";
import { formatDuration, visible } from "../format.js";
import { plural, t } from "../i18n.js";
import { titleOf } from "../run.js";
import { html, useId } from "./html.js";
import { Icon } from "./icons.js";
import { lazy } from "./lazy.js";
import { activityText } from "./notices.js";
import { Parts } from "./parts.js";
import { Said } from "./said.js";
import { Elapsed } from "./working.js";

const Steps = lazy(async () => (await import("./steps.js")).Steps);

/** `isWorking`: whether nothing but the run shows that the exchange goes on. */
export function Run({ run, exchange, isWorking, agentName: nameOf }) {
  const agentName = (id) => run.names.get(id) ?? nameOf(id);
  const [unfolded, setUnfolded] = useFold(`run:${exchange.key}`);
  const open = Boolean(unfolded);
  const body = useId();
  return html`<section class=${`run ${open ? "open" : ""}`} data-testid="run" data-state=${isWorking ? "working" : "done"}>
      <button
        type="button"
        class="run-head"
        data-testid="run-head"
        aria-expanded=${String(open)}
        aria-controls=${body}
        onClick=${() => setUnfolded(!open)}
      >
        <span class="mark">${isWorking ? html`<span class="spinner" />` : html`<${Icon} name="tool" />`}</span>
        ${
          isWorking
            ? html`<${Working} run=${run} exchange=${exchange} agentName=${agentName} />`
            : html`<${Done} run=${run} agentName=${agentName} />`
        }
        <${Icon} name="chevron" />
      </button>
      <div id=${body} class="run-body" hidden=${!open}>
        ${open && html`<${Steps} steps=${run.steps} within=${exchange.key} agentName=${agentName} />`}
      </div>
    </section>
    ${run.said && !open && html`<${Said} item=${run.said} />`}
    ${run.media.length > 0 && html`<div class="run-media"><${Parts} parts=${run.media} /></div>`}`;
}

function Working({ run: { running }, exchange, agentName }) {
  const doing = running ? visible(titleOf(running.call)) : null;
  const told = exchange.progress ? activityText("progress", exchange.progress, agentName) : null;
  return html`<span data-testid="working">${t("Working…")}</span>
    ${(told ?? doing) && html`<span class="run-doing" data-testid=${told ? "activity" : "doing"}>${told ?? doing}</span>`}
    <${Elapsed} since=${exchange.messages[0]?.timestamp} sign="· " />`;
}

function Done({ run: { tools, experts, steps, startedAt, endedAt, waitedMs }, agentName }) {
  const failed = failures(steps);
  const lasted = Date.parse(endedAt) - Date.parse(startedAt) - waitedMs;
  const told = [
    tools > 0 && plural(tools, "Used {count} tool", "Used {count} tools"),
    ...experts.map((id) => t("Asked {agent}", { agent: agentName(id) })),
  ].filter(Boolean);
  return html`<span>${told.join(" · ") || t("Worked")}</span>
    ${failed > 0 && html`<span class="run-failed">${plural(failed, "{count} failed", "{count} failed")}</span>`}
    ${lasted >= 0 && html`<span class="muted" data-testid="run-time">· ${formatDuration(lasted)}</span>`}`;
}

const failures = (steps) =>
  steps.reduce((sum, { state, children = [] }) => sum + (state === "failed") + failures(children), 0);
