/**
 * What an agent's author wants to know of a run: its graph with the nodes that ran, its steps with what they got and
 * gave, and the prompt. All texts are shown as texts.
 */

import { errorText } from "../error-words.js";
import { formatCount, formatDuration, visible, visibleProse } from "../format.js";
import { plural, t } from "../i18n.js";
import { GraphDrawing } from "./graph-drawing.js";
import { html, useEffect, useId, useMemo, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Tree } from "./result.js";

export function RunPanel({ exchange, conversation }) {
  // Read anew when the exchange has changed: a run that waited may have gone on.
  const load = async () => {
    const run = await conversation.api.steps(exchange.id);
    return { ...run, steps: inTreeOrder(run.steps) };
  };
  const run = useLoaded(load, [exchange.id, exchange.status]);
  if (run.failure) return html`<p role="alert" data-testid="playground-failure">${run.failure}</p>`;
  if (!run.loaded) return html`<p class="muted" aria-busy="true">${t("Loading")}</p>`;
  return html`<div class="run-panel" data-testid="run-panel">
    <${Summary} run=${run.loaded} />
    <${Graphs} run=${run.loaded} conversation=${conversation} />
    <h4>${t("Steps")}</h4>
    ${
      run.loaded.steps.some(({ rerunnable }) => rerunnable) &&
      html`<p class="muted">${t("Open a node of the agent’s own graph to run again from there.")}</p>`
    }
    <${Steps} run=${run.loaded} onRerun=${(step) => conversation.rerun(exchange, step.graph_step)} />
    ${run.loaded.cut && html`<p class="muted">${t("This is too large: only a part of it was kept.")}</p>`}
    <${Prompts} prompts=${run.loaded.prompts} />
  </div>`;
}

/** What `load` resolves to, as `{loaded}`, or why not, as `{failure}`. */
function useLoaded(load, given) {
  const [state, setState] = useState({});
  useEffect(() => {
    let isShown = true;
    load().then(
      (loaded) => isShown && setState({ loaded }),
      (error) => isShown && setState({ failure: errorText(error) }),
    );
    return () => (isShown = false);
  }, given);
  return state;
}

/** The steps, each followed by what ran within it, so that those of parallel steps don't mix. */
function inTreeOrder(steps) {
  const ids = new Set(steps.map(({ id }) => id));
  const within = new Map();
  for (const step of steps) {
    const parent = ids.has(step.parent) ? step.parent : null;
    within.set(parent, [...(within.get(parent) ?? []), step]);
  }
  const below = (id) => (within.get(id) ?? []).flatMap((step) => [step, ...below(step.id)]);
  return below(null);
}

/**
 * When each step began, by its id, and how long the run was at work, in milliseconds: without what it waited for a
 * person.
 */
function timesOf(steps) {
  const inTime = [...steps].sort((one, other) => one.id - other.id);
  let waited = inTime[0]?.at_ms ?? 0;
  let end = waited;
  const begins = new Map();
  for (const { id, at_ms: at, ms } of inTime) {
    if (at > end) waited += at - end;
    end = Math.max(end, at + (ms ?? 0));
    begins.set(id, at - waited);
  }
  return { begins, whole: end - waited };
}

function Summary({ run: { steps } }) {
  const calls = steps.filter(({ kind }) => kind === "model");
  const sum = (name) => calls.reduce((total, { tokens }) => total + (tokens?.[name] ?? 0), 0);
  const facts = [
    formatDuration(timesOf(steps).whole),
    plural(steps.filter(({ kind }) => kind === "node").length, "{count} node", "{count} nodes"),
    calls.length > 0 && plural(calls.length, "{count} call of a model", "{count} calls of models"),
    calls.some(({ tokens }) => tokens) && tokensText({ input: sum("input"), output: sum("output") }),
  ];
  return html`<p class="muted" data-testid="run-summary">${facts.filter(Boolean).join(" · ")}</p>`;
}

const tokensText = ({ input, output }) =>
  t("{input} tokens in, {output} out", { input: formatCount(input), output: formatCount(output) });

function Graphs({ run, conversation }) {
  const { loaded, failure } = useLoaded(() => conversation.api.graph(run.agent_id), [run.agent_id]);
  const ran = useMemo(() => ranByAgent(run), [run]);
  return html`<h4>${t("Graph")}</h4>
    ${failure && html`<p role="alert">${failure}</p>`}
    ${loaded?.graphs.map((graph, index) => {
      const drawing = html`<${GraphDrawing} key=${graph.agent_id} graph=${graph} ran=${ran.get(graph.agent_id) ?? NONE} />`;
      // Of the crew, those that did nothing are folded.
      if (index === 0 || ran.has(graph.agent_id)) return drawing;
      return html`<details key=${graph.agent_id}><summary class="muted">${graph.name}</summary>${drawing}</details>`;
    })}`;
}

const NONE = new Map();

/** By agent and node: `{place, ms, state}` of each time that it ran. An expert's graph is drawn on its own. */
function ranByAgent({ agent_id: root, steps }) {
  const byId = new Map(steps.map((step) => [step.id, step]));
  const found = new Map();
  for (const [index, step] of steps.entries()) {
    if (step.kind !== "node") continue;
    const agent = step.agent_id ?? root;
    const around = outside(step, agent, byId);
    const id = step.path.slice(around).join(":");
    const nodes = found.get(agent) ?? found.set(agent, new Map()).get(agent);
    nodes.set(id, [...(nodes.get(id) ?? []), { place: index + 1, ms: step.ms, state: step.state }]);
  }
  return found;
}

/** How many nodes of other agents are around a node. */
function outside(step, agent, byId) {
  let within = byId.get(step.parent);
  while (within && (within.kind !== "node" || within.agent_id === agent)) within = byId.get(within.parent);
  return within ? within.path.length : 0;
}

function Steps({ run: { steps }, onRerun }) {
  const { begins, whole } = useMemo(() => timesOf(steps), [steps]);
  const depths = useMemo(() => depthsOf(steps), [steps]);
  return html`<ol class="run-steps" data-testid="run-steps">
    ${steps.map(
      (step, index) => html`<li key=${step.id} class=${`depth-${depths[index]}`}>
        <${Step} step=${step} place=${index + 1} begin=${begins.get(step.id)} whole=${Math.max(whole, 1)} onRerun=${onRerun} />
      </li>`,
    )}
  </ol>`;
}

const DEEPEST = 4;

function depthsOf(steps) {
  const byId = new Map();
  return steps.map(({ id, parent }) => {
    const depth = byId.has(parent) ? Math.min(byId.get(parent) + 1, DEEPEST) : 0;
    byId.set(id, depth);
    return depth;
  });
}

const ICONS = { node: "sliders", model: "bulb", tool: "tool" };

const KINDS = { node: t("Node"), model: t("Model"), tool: t("Tool") };

const STATES = { failed: t("Failed"), waiting: t("Waits"), cut: t("Cut off"), running: t("Running") };

function Step({ step, place, begin, whole, onRerun }) {
  const [open, setOpen] = useState(false);
  const body = useId();
  const { kind, name, state, ms, tokens } = step;
  return html`<button
      type="button"
      class=${`run-step ${state}`}
      data-testid="run-step"
      data-kind=${kind}
      aria-expanded=${String(open)}
      aria-controls=${body}
      onClick=${() => setOpen(!open)}
    >
      <span class="muted">${place}</span>
      <${Icon} name=${ICONS[kind]} />
      <span class="run-step-name" title=${KINDS[kind]}>${visible(name || KINDS[kind])}</span>
      ${STATES[state] && html`<span class=${state === "failed" ? "run-failed" : "muted"}>${STATES[state]}</span>`}
      ${tokens && html`<span class="muted run-step-tokens">${tokensText(tokens)}</span>`}
      ${ms !== undefined && html`<span class="muted run-step-time">${formatDuration(ms)}</span>`}
      <${Bar} step=${step} begin=${begin} whole=${whole} />
    </button>
    <div id=${body} class="run-step-body" hidden=${!open}>${open && html`<${Details} step=${step} onRerun=${onRerun} />`}</div>`;
}

/** When the step ran, within the whole run. */
function Bar({ step: { kind, ms }, begin, whole }) {
  return html`<svg class=${`run-bar ${kind}`} viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect x=${(begin / whole) * 100} y="0" width=${Math.max(((ms ?? 0) / whole) * 100, 1)} height="6" />
  </svg>`;
}

function Details({ step, onRerun }) {
  const { model, error, rerunnable, path, agent_id: agent, input, output } = step;
  const told = [agent, path.length > 1 && path.join(" › "), model].filter(Boolean).map(visible);
  return html`${told.length > 0 && html`<p class="muted">${told.join(" · ")}</p>`}
    ${error && html`<pre class="json failed">${visibleProse(error)}</pre>`}
    <${Given} title=${t("Input")} value=${input} />
    <${Given} title=${t("Output")} value=${output} />
    ${rerunnable && html`<${Again} onRerun=${() => onRerun(step)} />`}`;
}

function Given({ title, value }) {
  if (value === null || value === undefined) return null;
  return html`<h4>${title}</h4>
    <div class="result">
      ${typeof value === "object" ? html`<${Tree} value=${value} isOpen inner=${2} />` : html`<pre class="json">${visibleProse(String(value))}</pre>`}
    </div>`;
}

function Again({ onRerun }) {
  const [{ busy, failure }, setState] = useState({});
  const begin = async () => {
    setState({ busy: true });
    try {
      await onRerun();
      setState({});
    } catch (error) {
      setState({ failure: errorText(error) });
    }
  };
  return html`<p>
      <button type="button" class="button" disabled=${busy} data-testid="rerun" onClick=${begin}>
        <${Icon} name="retry" /> ${t("Run again from here")}
      </button>
    </p>
    ${failure && html`<p role="alert">${failure}</p>`}`;
}

function Prompts({ prompts }) {
  if (!prompts.length) return null;
  return html`<h4>${t("System prompt")}</h4>
    <ul class="run-prompts" data-testid="run-prompts">
      ${prompts.flatMap(({ agent_id: agent, sections }) =>
        sections.map(
          ({ name, source, text, tokens }, index) => html`<li key=${`${agent}/${index}`}>
            <details>
              <summary>
                ${visible(name)} <span class="muted">${[agent, source, plural(tokens, "{count} token", "{count} tokens")].map(visible).join(" · ")}</span>
              </summary>
              <pre class="json">${visibleProse(text)}</pre>
            </details>
          </li>`,
        ),
      )}
    </ul>`;
}
