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
 * busy, however long it gets. A long text that is whole is shown in steps, what is in view first; until then the places
 * of its other blocks are about as high as they will be. One that grows by very much at once is shown piece by piece.
 */

import { colourCode, foldCode } from "./code-blocks.js";
import { inSteps } from "./in-steps.js";
import { foldTable } from "./long-tables.js";
import { elementsOf, renderBlocks, renderInSteps } from "./markdown.js";
import { enliven, morph } from "./morphing.js";
import { closable, lineStarts, openPart } from "./open-parts.js";
import { steadyCode, steadyLines } from "./steady.js";

export { htmlOf } from "./copying.js";

/** Blocks stand in groups of so many: what is out of sight is left out of a frame group by group. */
const GROUP = 16;

/** An open block of more characters than this rests after each rendering, so many times as long as that took. */
const LONG = 8_000;
const RESTS = 4;

/** No more characters than this are rendered at once. */
const MOST_AT_ONCE = 8_000;

/** The buttons of code are there once this is loaded. */
export { codeClicked } from "./code-blocks.js";

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
  /** Keeps what is to be shown soon from it. */
  #cancel = () => {};
  /** Blocks are shown in steps, and some have not been: there are gaps between them. */
  #isInSteps = false;

  constructor(root) {
    this.#root = root;
  }

  /**
   * Shows `text`, at once or soon; `streaming` says that more of it may follow. Once one is whole and shown, `onShown`
   * gets the root.
   */
  show(text, streaming, onShown = null) {
    this.#cancel();
    if (this.#isInSteps) this.#clear();
    if (streaming) return this.#follow(text);
    let isShown = text.length - this.#start <= MOST_AT_ONCE && !this.#render(text, false);
    if (!isShown && text.length <= MOST_AT_ONCE) isShown = !this.#render(text, false);
    if (isShown) return onShown?.(this.#root);
    this.#reopen();
    this.#isInSteps = true;
    this.#cancel = inSteps(this.#root, this.#showInSteps(text, onShown));
  }

  #follow(text) {
    const later = (wait) => {
      const timer = setTimeout(() => this.show(text, true), wait);
      this.#cancel = () => clearTimeout(timer);
    };
    const begun = performance.now();
    if (this.#shown.length - this.#start > LONG && begun < this.#restsUntil) return later(this.#restsUntil - begun);
    const shown = this.#nextPiece(text);
    this.#render(shown, true);
    const ended = performance.now();
    this.#restsUntil = ended + RESTS * (ended - begun);
    if (shown.length < text.length) later(0);
  }

  /** What of `text` is shown now: what is shown, and no more lines than fit. */
  #nextPiece(text) {
    const end = this.#shown.length + MOST_AT_ONCE;
    if (text.length <= end) return text;
    const line = text.lastIndexOf("\n", end) + 1;
    return text.slice(0, line > this.#shown.length ? line : end);
  }

  #clear() {
    this.#root.replaceChildren();
    this.#blocks = [];
    this.#shown = "";
    this.#isInSteps = false;
  }

  /** Whether a text that is whole has links or notes which reach back, and has to be rendered again. */
  #render(text, streaming) {
    if (!text.startsWith(this.#shown.slice(0, this.#start))) this.#reopen();
    this.#shown = text;
    const context = this.#part?.context ?? "";
    const source = context + this.#written(streaming);
    const { blocks, references } = renderBlocks(source, {
      streaming,
      folds: !streaming && this.#blocks.length === 0,
      references: this.#references,
      notes: this.#notes,
      id: this.#id,
    });
    this.#lay(blocks, streaming);
    if (!streaming) return this.#finish(references);
    this.#close(source, context.length, blocks, references);
    return false;
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
    return reachesBack;
  }

  *#showInSteps(text, onShown) {
    this.#shown = text;
    this.#notes = new Map();
    const blocks = yield* renderInSteps(text, { folds: this.#blocks.length === 0, id: this.#id });
    const unshown = new Set(this.#places(text, blocks));
    while (unshown.size) {
      const place = inView(unshown) ?? [...unshown][0];
      unshown.delete(place);
      for (let index = place.from; index < Math.min(place.from + GROUP, blocks.length); index += 1) {
        yield* this.#showBlock(index, blocks[index]);
      }
      place.group.classList.remove("unshown");
    }
    this.#removeFrom(blocks.length);
    this.#isInSteps = false;
    onShown?.(this.#root);
  }

  /** The groups of these blocks, which those that are not shown yet make about as high as they will be. */
  #places(text, blocks) {
    const starts = lineStarts(text);
    const heightOf = ({ start, end }) => {
      const length = (starts[end] ?? text.length) - (starts[start] ?? text.length);
      return LINE * Math.min(MOST_LINES, Math.max(end - start, length / LINE_CHARACTERS)) + BETWEEN;
    };
    const places = [];
    for (let from = 0; from < blocks.length; from += GROUP) {
      const group = this.#group(from);
      if (!group.hasChildNodes()) {
        const height = blocks.slice(from, from + GROUP).reduce((sum, block) => sum + heightOf(block), 0);
        group.style.setProperty("--height", `${Math.round(height)}px`);
        group.classList.add("unshown");
      }
      places.push({ group, from });
    }
    return places;
  }

  *#showBlock(index, { parts, rest }) {
    const laid = this.#blocks[index];
    let first = null;
    for (const html of parts()) {
      if (laid?.html === html) return;
      const [element] = elementsOf([html]);
      if (!first) {
        first = element;
        if (!laid) this.#place(index, { html, rest }, element, false);
      } else {
        const children = [...element.children];
        if (!laid) foldCode(element);
        first.append(...children);
        if (!laid) for (const child of children) enliven(child, true);
      }
      yield;
    }
    if (laid) this.#place(index, { html: "", rest }, first, false);
  }

  /** Brings the open elements to these blocks. */
  #lay(blocks, streaming) {
    const changed = blocks
      .map((block, index) => ({ block, index: this.#closed + index, isPart: index === 0 && this.#part !== null }))
      .filter(({ block, index, isPart }) => isPart || this.#blocks[index]?.html !== block.html);
    const elements = changed.length ? elementsOf(changed.map(({ block }) => block.html)) : [];
    changed.forEach(({ block, index, isPart }, at) => {
      if (isPart) this.#part.extend(elements[at]);
      else this.#place(index, block, elements[at], streaming);
    });
    this.#removeFrom(this.#closed + blocks.length);
  }

  #removeFrom(index) {
    for (const { element } of this.#blocks.splice(index)) {
      const group = element.parentElement;
      element.remove();
      if (!group.hasChildNodes()) group.remove();
    }
  }

  #place(index, { html, rest }, element, streaming) {
    const laid = this.#blocks[index];
    let shown = element;
    if (laid) {
      shown = morph(laid.element, element);
      Object.assign(laid, { element: shown, html });
    } else {
      if (!streaming) foldCode(element);
      if (rest) foldTable(element, rest);
      this.#group(index).append(element);
      this.#blocks[index] = { element, html };
    }
    enliven(shown, !streaming);
  }

  /** Where this block stands. */
  #group(index) {
    const group = this.#root.children[Math.floor(index / GROUP)];
    if (group) return group;
    const made = document.createElement("div");
    made.className = "blocks";
    return this.#root.appendChild(made);
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

/** For a guess at the height of a block, in characters, pixels and lines; what is longer is folded, mostly. */
const [LINE_CHARACTERS, LINE, BETWEEN, MOST_LINES] = [85, 26, 13, 40];

/** The first of these places that is in view. */
const inView = (places) =>
  [...places].find(({ group }) => {
    const { top, bottom } = group.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  });
