/**
 * What an answer rests on: a line under it that loads the trust summary each time it is opened.
 *
 * All texts are shown as texts: nothing of them is Markdown or HTML here.
 */

import { errorText } from "../error-words.js";
import { visible } from "../format.js";
import { t } from "../i18n.js";
import { html, useId, useState } from "./html.js";
import { Icon } from "./icons.js";
import { LinkChip } from "./parts.js";

/** `load` resolves to the TrustSummary, or raises ApiError. */
export function Trust({ load }) {
  const [open, setOpen] = useState(false);
  const [{ summary, failure }, setLoaded] = useState({});
  const body = useId();
  const toggle = async () => {
    setOpen(!open);
    if (open) return;
    try {
      setLoaded({ summary: await load() });
    } catch (error) {
      setLoaded({ failure: errorText(error) });
    }
  };
  return html`<section class=${`card trust ${open ? "open" : ""}`} data-testid="trust">
    <button type="button" class="card-head" aria-expanded=${String(open)} aria-controls=${body} onClick=${toggle}>
      <span class="mark"><${Icon} name="search" /></span>
      <span>${t("What this rests on")}</span>
      <span class="spacer" />
      <${Icon} name="chevron" />
    </button>
    <div id=${body} class="card-body" aria-busy=${String(open && !summary && !failure)}>
      ${open && !summary && !failure && html`<p class="muted" role="status">${t("Loading")}</p>`}
      ${open && failure && html`<p role="alert" data-testid="trust-failure">${failure}</p>`}
      ${open && summary && html`<${Summary} summary=${summary} />`}
    </div>
  </section>`;
}

function Summary({ summary: { statements, tools, sources, objections, cut } }) {
  const grounds = new Map([...tools, ...sources].map((ground) => [ground.id, ground]));
  return html`<div class="trust-summary" tabindex="0" role="region" aria-label=${t("What this rests on")}>
    <${Section} name="statements" title=${t("Statements")} note=${statements.some(rests) && NO_PROOF} items=${statements}>
      ${(statement) => html`<${Statement} statement=${statement} grounds=${grounds} />`}
    <//>
    <${Section} name="tools" title=${t("Tools")} items=${tools}>${(tool) => html`<${Tool} tool=${tool} />`}<//>
    <${Section} name="sources" title=${t("Sources")} items=${sources}>
      ${({ number, title, href }) => html`<${LinkChip} label=${number} title=${title} href=${href} />`}
    <//>
    <${Section} name="objections" title=${t("Objections")} items=${objections}>${(objection) => objectionText(objection)}<//>
    ${cut && html`<p class="muted">${t("This is too large: only a part of it was looked at.")}</p>`}
  </div>`;
}

function Section({ name, title, note, items, children }) {
  if (!items.length) return null;
  return html`<h4>${title}</h4>
    ${note && html`<p class="muted">${note}</p>`}
    <ul data-testid=${`trust-${name}`}>
      ${items.map((item, index) => html`<li key=${index}>${children(item)}</li>`)}
    </ul>`;
}

const NO_PROOF = t(
  "Each with the sources that it cites, and the results that have its figures, names or words. That is no proof.",
);

const rests = ({ rests_on: restsOn }) => restsOn.length > 0;

const FOUND_BY = {
  citation: t("The statement names this source"),
  match: t("Its figures, names or words are there"),
};

function Statement({ statement: { text, rests_on: restsOn }, grounds }) {
  return html`<blockquote>${unmarked(text)}</blockquote>
    <p class="chips">
      ${restsOn.map(
        ({ id, by }) => html`<span key=${id} title=${FOUND_BY[by]}><${Ground} ground=${grounds.get(id)} /></span>`,
      )}
      ${restsOn.length === 0 && html`<span class="muted">${t("The model's own words")}</span>`}
    </p>`;
}

/** A statement without the bars of a table's row and the signs of bold text. */
function unmarked(text) {
  const cells = text.startsWith("|") ? text.split("|").map((cell) => cell.trim()) : [text];
  return cells
    .filter(Boolean)
    .join(" · ")
    .replace(/\*\*(\S|\S[^*\n]*\S)\*\*/g, "$1");
}

function Ground({ ground }) {
  if (!ground) return null;
  if (ground.call_id) return html`<${ToolLink} tool=${ground} />`;
  return html`<${LinkChip} label=${ground.number} title=${ground.title} href=${ground.href} />`;
}

function ToolLink({ tool: { name, call_id: callId } }) {
  const show = ({ currentTarget }) => showCall(currentTarget, callId);
  return html`<button type="button" class="chip" onClick=${show}><${Icon} name="tool" />
    <span class="chip-text">${visible(name)}</span>
  </button>`;
}

const PATIENCE_MS = 5_000;

const frame = () => new Promise(requestAnimationFrame);

/** Brings the card of a tool call into view: that of the same exchange, or of the one that it goes on from. */
async function showCall(button, callId) {
  const within = (root) => [...root.querySelectorAll("[data-call]")].findLast(({ dataset }) => dataset.call === callId);
  const exchange = button.closest(".exchange");
  const folded = exchange.querySelector('.run-head[aria-expanded="false"]');
  folded?.click();
  // The first run to be unfolded waits for its steps' component.
  const until = performance.now() + PATIENCE_MS;
  while (folded && !exchange.querySelector(".run-body > .steps") && performance.now() < until) await frame();
  if (folded) {
    // In the second frame the view has taken in how far the run has grown, and no longer holds its place.
    await frame();
    await frame();
  }
  const card = within(exchange) ?? within(document);
  card?.scrollIntoView({ block: "center" });
  card?.querySelector(".card-head").focus({ preventScroll: true });
}

const OUTCOMES = {
  ok: t("Succeeded"),
  failed: t("Failed"),
  rejected: t("Rejected"),
  forbidden: t("Not allowed"),
  cancelled: t("Cut off"),
  pending: t("No result yet"),
};

function Tool({ tool }) {
  return html`<p class="chips">
      <${ToolLink} tool=${tool} />
      <span class=${`tool-outcome ${tool.outcome}`}>${OUTCOMES[tool.outcome] ?? tool.outcome}</span>
    </p>
    <p>${tool.approval === "not_required" && `${t("Nobody was asked.")} `}${tool.allowed_because}</p>`;
}

const OBJECTIONS = {
  modified: {
    input: "{who} changed the message.",
    tool_result: "{who} changed a tool's result.",
    output: "{who} changed the answer.",
  },
  blocked: {
    input: "{who} blocked the message.",
    tool_result: "{who} blocked a tool's result.",
    output: "{who} blocked the answer.",
  },
  failed: {
    input: "{who} failed and did not check the message.",
    tool_result: "{who} failed and did not check a tool's result.",
    output: "{who} failed and did not check the answer.",
  },
};

function objectionText({ by, module, stage, action }) {
  const who = by === "module" ? t("The module {module}", { module }) : t("The filter of the model's provider");
  return t(OBJECTIONS[action][stage], { who });
}
