/**
 * A Markdown text in the page that may grow while its reader uses it.
 *
 * The text before `#start` is closed: its elements are never touched again. Only what comes after is parsed anew with
 * each piece, and put into the page by changing its end. What is open is the last top-level block, and of a list its
 * last item, of a table its last row, of a fence its last line: see open-parts.js.
 *
 * Link definitions and footnotes reach back into closed blocks. While the text grows they do not; once it is whole, a
 * text that has any is compared block by block with itself rendered at once. So the end is always what the text says.
 *
 * A paragraph, a quotation or an item is rendered whole. A long one is rendered less often: it must not keep the page
 * busy, however long it gets.
 */

import { colourCode, foldCode } from "./code-blocks.js";
import { elementsOf, renderBlocks } from "./markdown.js";
import { enliven, morph } from "./morphing.js";
import { closable, lineStarts, openPart } from "./open-parts.js";
import { steadyCode, steadyLines } from "./steady.js";

/** Blocks stand in groups of so many: what is out of sight is left out of a frame group by group. */
const GROUP = 16;

/** An open block of more characters than this rests after each rendering, so many times as long as that took. */
const LONG = 8_000;
const RESTS = 4;

let texts = 0;

export class GrowingText {
  #root;
  /** For the ids of its footnotes. */
  #id = `text-${(texts += 1)}`;
  #shown = "";
  /** How much of `#shown` is closed, in characters. */
  #start = 0;
  /** An element for each top-level block, with the HTML that it was made of. */
  #blocks = [];
  /** How many of them are closed. */
  #closed = 0;
  /** What of the first open block is not closed, where the rest of it is. */
  #part = null;
  /** The link definitions in the closed text. */
  #references = {};
  /** The numbers of footnotes by their label, in the order in which the text names them. */
  #notes = new Map();
  /** When a long open block may be rendered again. */
  #restsUntil = 0;
  #afterRest = null;

  constructor(root) {
    this.#root = root;
  }

  /** Shows `text`, at once or soon; `streaming` says that more of it may follow. */
  show(text, streaming) {
    clearTimeout(this.#afterRest);
    const begun = performance.now();
    if (streaming && text.length - this.#start > LONG && begun < this.#restsUntil) {
      this.#afterRest = setTimeout(() => this.show(text, true), this.#restsUntil - begun);
      return;
    }
    this.#render(text, streaming);
    const ended = performance.now();
    this.#restsUntil = ended + RESTS * (ended - begun);
  }

  #render(text, streaming) {
    if (!text.startsWith(this.#shown.slice(0, this.#start))) this.#reopen();
    this.#shown = text;
    const context = this.#part?.context ?? "";
    const source = context + this.#written(streaming);
    const { blocks, references } = renderBlocks(source, {
      streaming,
      references: this.#references,
      notes: this.#notes,
      id: this.#id,
    });
    this.#lay(blocks, streaming);
    if (streaming) this.#close(source, context.length, blocks, references);
    else this.#finish(references);
  }

  #written(streaming) {
    const written = this.#shown.slice(this.#start);
    if (!streaming) return written;
    return this.#part?.kind === "fence" ? steadyCode(written) : steadyLines(written);
  }

  #reopen() {
    this.#start = this.#closed = 0;
    this.#endPart();
    this.#references = {};
  }

  #endPart() {
    this.#part?.end();
    this.#part = null;
  }

  /** The text is whole. */
  #finish(references) {
    const reachesBack = this.#start > 0 && (this.#notes.size > 0 || Object.keys(references).length > 0);
    for (const { element } of this.#blocks.slice(this.#closed)) colourCode(element, true);
    this.#reopen();
    this.#notes = new Map();
    if (reachesBack) this.#render(this.#shown, false);
  }

  /** Brings the open elements to these blocks. */
  #lay(blocks, streaming) {
    const changed = blocks
      .map(({ html }, index) => ({ html, isPart: index === 0 && this.#part !== null, laid: this.#blocks[this.#closed + index] }))
      .filter(({ html, isPart, laid }) => isPart || laid?.html !== html);
    const elements = changed.length ? elementsOf(changed.map(({ html }) => html)) : [];
    changed.forEach(({ html, isPart, laid }, index) => {
      if (isPart) this.#part.extend(elements[index]);
      else this.#place(laid, elements[index], html, streaming);
    });
    for (const { element } of this.#blocks.splice(this.#closed + blocks.length)) {
      const group = element.parentElement;
      element.remove();
      if (!group.hasChildNodes()) group.remove();
    }
  }

  #place(laid, element, html, streaming) {
    let shown = element;
    if (laid) {
      shown = morph(laid.element, element);
      Object.assign(laid, { element: shown, html });
    } else {
      if (!streaming) foldCode(element);
      this.#group().append(element);
      this.#blocks.push({ element, html });
    }
    enliven(shown, !streaming);
  }

  /** Where the next block goes. */
  #group() {
    if (this.#blocks.length % GROUP > 0) return this.#root.lastElementChild;
    const group = document.createElement("div");
    group.className = "blocks";
    return this.#root.appendChild(group);
  }

  /** Closes what no further text can change: what comes before the last block of which a line is whole. */
  #close(source, contextLength, blocks, references) {
    const starts = lineStarts(source);
    const last = blocks.findLastIndex(({ start }) => start < starts.length - 1);
    let end = 0;
    if (last > 0) {
      end = starts[blocks[last - 1].end];
      this.#keepReferences(source.slice(0, end), references);
      for (const { element } of this.#blocks.slice(this.#closed, this.#closed + last)) colourCode(element, true);
      this.#closed += last;
      this.#endPart();
    } else if (last === 0) {
      end = this.#closeParts(closable(source, blocks[0], starts), blocks[0].kind);
    }
    if (end) this.#start += end - contextLength;
  }

  /** Where the closed parts of the first open block end in what was parsed; 0: there are none yet. */
  #closeParts(found, kind) {
    if (!found) return 0;
    this.#part ??= openPart(kind, this.#blocks[this.#closed].element);
    this.#part.kind = kind;
    this.#part.close(found.count);
    this.#part.context = found.context;
    return found.end;
  }

  #keepReferences(closed, references) {
    if (Object.keys(references).length === Object.keys(this.#references).length) return;
    this.#references = renderBlocks(closed, { references: this.#references }).references;
  }
}
