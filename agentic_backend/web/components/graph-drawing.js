/** The graph of an agent, as a drawing in which the nodes that ran are marked. */

import { formatDuration, visible } from "../format.js";
import { layout, LONGEST_NAME } from "../graph-layout.js";
import { t } from "../i18n.js";
import { CopyButton } from "./copy-button.js";
import { html, useId, useMemo } from "./html.js";

const TERMINALS = { __start__: t("Start"), __end__: t("End") };

/** `graph` is an AgentGraph; `ran` has by a node's id in which places of the run it ran, and for how long. */
export function GraphDrawing({ graph, ran }) {
  const drawing = useMemo(() => layout(named(graph)), [graph]);
  const arrow = useId();
  const label = t("Graph of {agent}", { agent: graph.name });
  return html`<div class="graph-head">
      <span class="muted">${graph.name}</span>
      <${CopyButton} text=${graph.mermaid} label=${t("Copy Mermaid")} testId="copy-mermaid" />
    </div>
    <div class="graph" tabindex="0" role="region" aria-label=${label}>
      <svg
        role="img"
        aria-label=${label}
        data-testid="graph"
        width=${drawing.width}
        height=${drawing.height}
        viewBox=${`0 0 ${drawing.width} ${drawing.height}`}
      >
        <defs>
          <marker id=${arrow} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0L8 4L0 8z" class="graph-arrow" />
          </marker>
        </defs>
        ${drawing.edges.map(
          (edge, index) => html`<path
            key=${index}
            class=${`graph-edge ${edge.conditional ? "conditional" : ""}`}
            d=${curve(edge.points)}
            marker-end=${`url(#${arrow})`}
          />`,
        )}
        ${drawing.nodes.map((node) => html`<${Node} key=${node.id} node=${node} runs=${ran.get(node.id)} />`)}
      </svg>
    </div>`;
}

const named = ({ nodes, edges }) => ({
  nodes: nodes.map(({ id, name }) => ({ id, name: TERMINALS[id] ?? visible(id.includes(":") ? id.replaceAll(":", " › ") : name) })),
  edges,
});

function Node({ node: { id, name, x, y, width, height }, runs }) {
  const shown = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
  const state = runs ? (runs.some(({ state: how }) => how === "failed") ? "ran failed" : "ran") : "";
  const took = runs?.reduce((sum, { ms }) => sum + (ms ?? 0), 0);
  return html`<g class=${`graph-node ${id in TERMINALS ? "terminal" : ""} ${state}`} data-node=${id} data-ran=${runs?.length ?? 0}>
    <title>${name}</title>
    <rect x=${x - width / 2} y=${y - height / 2} width=${width} height=${height} rx=${id in TERMINALS ? height / 2 : 8} />
    <text x=${x} y=${runs ? y - 3 : y + 5}>${shown}</text>
    ${runs && html`<text class="graph-note" x=${x} y=${y + 14}>${`${places(runs)} · ${formatDuration(took)}`}</text>`}
  </g>`;
}

const MOST_PLACES = 4;

const places = (runs) =>
  runs
    .slice(0, MOST_PLACES)
    .map(({ place }) => `#${place}`)
    .join(" ") + (runs.length > MOST_PLACES ? " …" : "");

/** A line through the points that leaves and reaches each of them vertically. */
function curve([[x, y], ...rest]) {
  let path = `M${x} ${y}`;
  let [lastX, lastY] = [x, y];
  for (const [nextX, nextY] of rest) {
    const middle = (lastY + nextY) / 2;
    path += `C${lastX} ${middle} ${nextX} ${middle} ${nextX} ${nextY}`;
    [lastX, lastY] = [nextX, nextY];
  }
  return path;
}
