/**
 * Text that is still being written, as it can be shown: what its last characters mean is not known yet, so marks that
 * would show raw for a moment are held back, and emphasis and code that are open are closed.
 *
 * All here is a guess that the next characters may correct, and is used only while a text streams.
 */

import { isCjk } from "./cjk-emphasis.js";
import { endOfDollars } from "./formulas.js";
import { tagAt } from "./html-tags.js";

/** No further back than this do open marks count; it bounds what a frame costs. */
const LOOK_BACK = 2_000;

/** A last line that may still become another block: a list, a rule, a heading's underline, a table, a fence, a note. */
const UNDECIDED_LINE =
  /^[ \t>]*(?:[-=*+_`~#|:$][-=*+_`~#|:$ \t]*|\d{1,9}[.)]?|\[\^[^\]\n]{0,40}\]?:?|(?:```|~~~)[^`\n]*|\\\[?)[ \t]*$/;

/** Lines at a paragraph's end that may become a table's first two. */
const UNDECIDED_TABLE = /(?:^|\n)[ \t]*\|[^\n]*(?:\n[ \t]*[|:\- \t]*)?$/;

/** The beginning of a definition, an alert or a task. */
const UNDECIDED_LABEL = /^\[[^\]\n]*\]?:?$/;

/** Markdown without a last line that can't be shown yet. */
export function steadyLines(source) {
  const start = source.lastIndexOf("\n") + 1;
  return UNDECIDED_LINE.test(source.slice(start)) ? source.slice(0, start) : source;
}

/** What follows an open fence's closed lines, without a last line that may be its end. */
export function steadyCode(source) {
  if (/^[ \t]*(?:`{3,}|~{3,})[ \t]*\n/m.test(source)) return steadyLines(source);
  const start = source.lastIndexOf("\n") + 1;
  return /^[ \t]*(?:`+|~+)[ \t]*$/.test(source.slice(start)) ? source.slice(0, start) : source;
}

/** The inline Markdown at the text's end, with what is open in it closed or held back. */
export function steadyInline(content) {
  const shown = content.replace(UNDECIDED_TABLE, "").replace(UNDECIDED_LABEL, "");
  const start = Math.max(0, shown.length - LOOK_BACK);
  return shown.slice(0, start) + new Scan(shown.slice(start)).closed();
}

const isWord = (sign) => sign !== undefined && /[\p{L}\p{N}]/u.test(sign);
const isSpace = (sign) => sign === undefined || /\s/.test(sign);

/** One pass over the text. Each method looks at what begins at `#at` and moves on, or cuts the text there. */
class Scan {
  #text;
  #at = 0;
  /** Marks of emphasis that are open, the innermost last. */
  #open = [];

  constructor(text) {
    this.#text = text;
  }

  closed() {
    while (this.#at < this.#text.length) this.#step();
    if (!this.#open.length) return this.#text;
    return this.#text.trimEnd() + this.#open.reverse().join("");
  }

  #step() {
    switch (this.#text[this.#at]) {
      case "\\":
        return this.#escape();
      case "`":
        return this.#code();
      case "$":
        return this.#text.startsWith("$$", this.#at) ? this.#until("$$", 2) : this.#dollar();
      case "!":
        return this.#text[this.#at + 1] === "[" ? this.#link(this.#at + 1, true) : this.#skip(1);
      case "[":
        return this.#link(this.#at, false);
      case "<":
        return this.#tag();
      case "&":
        return this.#unless(/^&#?\w{0,10}$/);
      case "*":
      case "_":
      case "~":
        return this.#emphasis();
      default:
        return this.#skip(1);
    }
  }

  #skip(count) {
    this.#at += count;
  }

  #cut() {
    this.#text = this.#text.slice(0, this.#at);
  }

  /** Cuts if the rest may still become something else. */
  #unless(pattern) {
    if (pattern.test(this.#text.slice(this.#at, this.#at + 80)) && this.#text.length - this.#at <= 80) this.#cut();
    else this.#skip(1);
  }

  /** Past `end`; cuts where it has not come. */
  #until(end, skipped) {
    const found = this.#text.indexOf(end, this.#at + skipped);
    if (found < 0) this.#cut();
    else this.#at = found + end.length;
  }

  /** Held back where it may begin a formula; before a digit it is money. */
  #dollar() {
    const end = endOfDollars(this.#text, this.#at);
    if (end) this.#at = end;
    else this.#unless(/^\$(?:[^\s\d$`][^$`\n]*)?$/);
  }

  #escape() {
    const next = this.#text[this.#at + 1];
    if (next === undefined) this.#cut();
    else if (next === "(") this.#until("\\)", 2);
    else if (next === "[") this.#until("\\]", 2);
    else this.#skip(2);
  }

  #code() {
    const [run] = /^`+/.exec(this.#text.slice(this.#at));
    const from = this.#at + run.length;
    for (let end = this.#text.indexOf(run, from); end >= 0; end = this.#text.indexOf(run, end)) {
      const [closing] = /^`+/.exec(this.#text.slice(end));
      end += closing.length;
      if (closing.length !== run.length) continue;
      this.#at = end;
      return;
    }
    const code = this.#text.slice(from).replace(/`+$/, "");
    if (!code.trim()) return this.#cut();
    this.#text = this.#text.slice(0, from) + code + run;
    this.#at = this.#text.length;
  }

  #tag() {
    const tag = tagAt(this.#text.slice(this.#at, this.#at + 250));
    if (!tag) return this.#unless(/^<(?:[a-z/][^\s<>]*|(?:details|summary)\s[^<>]*)?$/i);
    if (this.#at + tag.length === this.#text.length && tag.closing) return this.#cut();
    if (tag.closing) this.#open.push(tag.closing);
    else if (this.#open.at(-1) === this.#text.slice(this.#at, this.#at + tag.length).toLowerCase()) this.#open.pop();
    this.#skip(tag.length);
  }

  /** A link or an image whose `[` stands at `bracket`: until it is whole, a link is its label and an image nothing. */
  #link(bracket, isImage) {
    const end = this.#text.indexOf("]", bracket);
    const label = this.#text.slice(bracket + 1, end < 0 ? undefined : end);
    const next = this.#text[end + 1];
    const closing = { "(": ")", "[": "]" }[next];
    const target = closing ? this.#text.indexOf(closing, end + 2) : -1;
    const isWhole = end >= 0 && (closing ? target >= 0 || /\s/.test(this.#text.slice(end + 2)) : next !== undefined);
    if (isWhole) {
      this.#at = closing && target >= 0 ? target + 1 : bracket + 1;
    } else if (isImage || label.length <= 3) {
      this.#cut();
    } else {
      this.#text = this.#text.slice(0, this.#at) + label;
    }
  }

  #emphasis() {
    const sign = this.#text[this.#at];
    let { length } = /^(?:\*+|_+|~+)/.exec(this.#text.slice(this.#at))[0];
    const [before, after] = [this.#text[this.#at - 1], this.#text[this.#at + length]];
    const start = this.#at;
    this.#skip(length);
    if (!isSpace(before) && !(sign === "_" && isWord(after))) length -= this.#closes(sign, length);
    if (length === 0) return;
    if (after === undefined) {
      this.#text = this.#text.slice(0, start + this.#at - start - length);
    } else if (!isSpace(after) && !(isWord(before) && (sign === "_" || (length === 1 && !isCjk(before))))) {
      this.#opens(sign, length);
    }
  }

  /** Closes open marks of this `sign` with up to `length` signs; how many it took. */
  #closes(sign, length) {
    let taken = 0;
    while (this.#open.at(-1)?.startsWith(sign) && this.#open.at(-1).length <= length - taken) {
      taken += this.#open.pop().length;
    }
    return taken;
  }

  #opens(sign, length) {
    if (sign === "~") {
      if (length === 2) this.#open.push("~~");
      return;
    }
    for (let left = Math.min(length, 3); left > 0; left -= 2) this.#open.push(sign.repeat(Math.min(left, 2)));
  }
}
