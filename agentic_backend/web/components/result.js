/** What a tool gave, by its kind: a table of objects, a folded tree of JSON, Markdown, or text. */

import { parseExactly } from "../client/exact-json.js";
import { formatCount, formatJson, visible, visibleProse } from "../format.js";
import { plural, t } from "../i18n.js";
import { html, useState } from "./html.js";
import { RichText } from "./rich-text.js";

/** More is shown as text: a tree of it would be no help. */
const LONGEST_JSON = 200_000;
const MOST_COLUMNS = 12;
/** How many entries of a list or rows of a table are shown before one asks for more. */
const SHOWN_AT_FIRST = 50;
const MARKDOWN = /^(#{1,6} |```|\s*[-*+] \S|\s*\d+\. \S|> |\|.*\|)|\*\*\S|\]\(https?:/m;

export function Result({ result: { ok, content } }) {
  if (ok === false) return html`<pre class="json failed" data-testid="tool-result">${visibleProse(content)}</pre>`;
  const value = jsonIn(content);
  return html`<div class="result" data-testid="tool-result">${shown(value, content)}</div>`;
}

function shown(value, content) {
  if (isTable(value)) return html`<${Table} rows=${value} />`;
  if (value !== undefined) return html`<${Tree} value=${value} isOpen />`;
  if (MARKDOWN.test(content)) return html`<${RichText} text=${content} />`;
  return html`<pre class="json">${visibleProse(content)}</pre>`;
}

/** The object or list in the text; undefined if there is none. */
function jsonIn(text) {
  if (text.length > LONGEST_JSON || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}

/** A number that JavaScript would round is kept as its text. */
const isTree = (value) => value !== null && typeof value === "object" && !JSON.isRawJSON?.(value);

const isObject = (value) => isTree(value) && !Array.isArray(value);

function isTable(value) {
  if (!Array.isArray(value) || !value.length || !value.every(isObject)) return false;
  const columns = columnsOf(value);
  return columns.length > 0 && columns.length <= MOST_COLUMNS;
}

const columnsOf = (rows) => [...new Set(rows.flatMap(Object.keys))];

function Table({ rows }) {
  const [all, setAll] = useState(false);
  const columns = columnsOf(rows);
  const shownRows = all ? rows : rows.slice(0, SHOWN_AT_FIRST);
  return html`<div class="table" tabindex="0" role="region" aria-label=${t("Result")}>
      <table>
        <thead>
          <tr>${columns.map((name) => html`<th key=${name} scope="col">${visible(name)}</th>`)}</tr>
        </thead>
        <tbody>
          ${shownRows.map(
            (row, index) => html`<tr key=${index}>
              ${columns.map((name) => html`<td key=${name} dir="auto">${name in row && cell(row[name])}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <${More} rest=${rows.length - shownRows.length} onMore=${() => setAll(true)} />`;
}

const cell = (value) =>
  isTree(value) ? html`<${Tree} value=${value} />` : plain(value);

const plain = (value) => (typeof value === "string" ? visibleProse(value) : formatJson(value));

/** An object or a list; what is inside is made when it is unfolded. `inner`: how many levels within are open with it. */
export function Tree({ name, value, isOpen = false, inner = 0 }) {
  const [open, setOpen] = useState(isOpen);
  const [all, setAll] = useState(false);
  if (!isTree(value)) {
    return html`<div class="json-leaf">
      ${name !== undefined && html`<span class="json-name">${visible(name)}</span>`}<span dir="auto">${plain(value)}</span>
    </div>`;
  }
  const entries = Object.entries(value);
  const shownEntries = all ? entries : entries.slice(0, SHOWN_AT_FIRST);
  const size = Array.isArray(value)
    ? plural(entries.length, "{count} entry", "{count} entries")
    : plural(entries.length, "{count} field", "{count} fields");
  return html`<details class="json-tree" open=${open} onToggle=${({ currentTarget }) => setOpen(currentTarget.open)}>
    <summary>${name !== undefined && html`<span class="json-name">${visible(name)}</span>`}<span class="muted">${size}</span></summary>
    ${open && shownEntries.map(([key, each]) => html`<${Tree} key=${key} name=${key} value=${each} isOpen=${inner > 0} inner=${inner - 1} />`)}
    ${open && html`<${More} rest=${entries.length - shownEntries.length} onMore=${() => setAll(true)} />`}
  </details>`;
}

function More({ rest, onMore }) {
  if (rest <= 0) return null;
  return html`<button type="button" class="link-button" onClick=${onMore}>
    ${t("Show {count} more", { count: formatCount(rest) })}
  </button>`;
}
