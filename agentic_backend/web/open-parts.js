/**
 * What of a block is closed while the block itself goes on: all items of a list but the last, the rows of a table and
 * the lines of a fence that are whole. Only what comes after is parsed, behind the lines that make it what it is: a
 * table's head, a fence's opening.
 *
 * `closable(source, block, starts)` says what of a block of renderBlocks no further text can change: `{end, count,
 * context}`, where in `source` that ends, how many items or rows it is, and the lines to put before the rest. A part
 * made by `openPart` then takes the rest's elements with `extend`, until its `end`.
 */

import { codeOf, colourCode, replaceEnd } from "./code-blocks.js";
import { freezeColumns } from "./long-tables.js";
import { MOST_ROWS, ROWS } from "./markdown.js";
import { enliven, morph } from "./morphing.js";

/** Where each line of `source` begins; the last one may not be whole. */
export function lineStarts(source) {
  const starts = [0];
  for (let at = source.indexOf("\n"); at >= 0; at = source.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

const CLOSABLE = { list: closableItems, table: closableRows, fence: closableLines };

export const closable = (source, block, starts) => CLOSABLE[block.kind]?.(source, block, starts) ?? null;

function closableItems(_source, { items }, starts) {
  const count = items.findLastIndex((start) => start < starts.length - 1);
  return count > 0 ? { end: starts[items[count]], count, context: "" } : null;
}

function closableRows(source, { start, end }, starts) {
  const first = start + 2;
  const count = Math.min(end, starts.length - 1) - first;
  return count > 0
    ? { end: starts[first + count], count, context: source.slice(starts[start], starts[first]) }
    : null;
}

function closableLines(source, { start, end }, starts) {
  const line = (index) => source.slice(starts[index], starts[index + 1]).trim();
  const [fence] = /^(?:`+|~+)/.exec(line(start));
  const isClosed = end - 1 > start && line(end - 1).startsWith(fence) && new Set(line(end - 1)).size === 1;
  const count = starts.length - 2 - start;
  if (isClosed || count <= 0) return null;
  return { end: starts.at(-1), count, context: source.slice(starts[start], starts[start + 1]) };
}

/** The part of a block that goes on, whose element shows all of it. */
export function openPart(kind, element) {
  if (kind === "fence") return new OpenCode(element);
  return kind === "table" ? new OpenTable(element) : new OpenList(element);
}

class OpenList {
  context = "";
  #open;

  constructor(element) {
    this.element = element;
    this.#open = this.childrenOf(element);
  }

  childrenOf(element) {
    return [...element.children];
  }

  append(child) {
    return this.element.appendChild(child);
  }

  extend(rendered) {
    const children = this.childrenOf(rendered);
    children.forEach((child, index) => {
      const there = this.#open[index];
      this.#open[index] = there ? morph(there, child) : this.append(child);
      enliven(this.#open[index], false);
    });
    for (const left of this.#open.splice(children.length)) {
      const parent = left.parentElement;
      left.remove();
      if (!parent.hasChildNodes()) parent.remove();
    }
  }

  close(count) {
    for (const child of this.#open.splice(0, count)) colourCode(child, true);
  }

  end() {}
}

/**
 * The rows of a table. One with several groups of them keeps the widths of its columns until its end, a long one for
 * good: each new row would have all rows laid out anew.
 */
class OpenTable extends OpenList {
  get #table() {
    return this.element.querySelector("table");
  }

  childrenOf(element) {
    return [...element.querySelectorAll("tbody > tr")];
  }

  append(row) {
    const last = [...this.#table.tBodies].at(-1);
    if (last.rows.length < ROWS) return last.appendChild(row);
    freezeColumns(this.element);
    return this.#table.createTBody().appendChild(row);
  }

  end() {
    if (this.#table.rows.length > MOST_ROWS) return;
    // It had none. They have to be asked for: a style that is not written out yet would leave an empty one behind.
    for (const name of this.#table.getAttributeNames()) this.#table.removeAttribute(name);
  }
}

class OpenCode {
  context = "";
  #block;
  /** What is shown behind the closed lines: what is before is never read again, however long it is. */
  #open;

  constructor(block) {
    this.#block = block;
    this.#open = codeOf(block);
  }

  extend(rendered) {
    const open = codeOf(rendered);
    replaceEnd(this.#block, this.#open, open);
    this.#open = open;
    colourCode(this.#block, false);
  }

  close() {
    this.#open = this.#open.slice(this.#open.lastIndexOf("\n") + 1);
  }

  end() {}
}
