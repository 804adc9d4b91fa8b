/**
 * The few HTML tags that models write where Markdown has no other way: `<br>`, `<kbd>`, `<sub>`, `<sup>`, and `<details>`
 * with a `<summary>`. Of their attributes only `open` is taken; all other HTML is text.
 */

const OPENING = /^<(kbd|sub|sup)(?:\s[^<>]{0,200})?>/i;
const CLOSING = /^<\/(kbd|sub|sup)\s*>/i;

/** More than this isn't put between an opening tag and its closing one, in characters. */
const MOST_CHARACTERS = 2_000;

/** How deep blocks may be in one another where details begin: each reads to its end where that is. */
const DEEPEST = 20;
const DETAILS = /^<details(\s[^<>]{0,200})?>/i;
/** At a line's end, of so many characters: of more it would be searched for too long. */
const LONGEST_ENDS = 300;
const CLOSED_DETAILS = /(?:<\/details\s*>\s*)+$/i;
const SUMMARY = /^<summary(?:\s[^<>]{0,200})?>/i;
const FENCE = /^(?:`{3,}|~{3,})/;

/** A plugin of markdown-it. */
export function htmlTags(markdown) {
  markdown.inline.ruler.before("html_inline", "line_break", lineBreak);
  markdown.inline.ruler.before("html_inline", "tag", inlineTag);
  markdown.block.ruler.before("html_block", "details", details, { alt: ["paragraph", "reference", "blockquote"] });
}

/** The tag that `text` begins with, as `{length, closing}`, which is what ends it, or null where it is an end itself. */
export function tagAt(text) {
  const tag = OPENING.exec(text) ?? CLOSING.exec(text);
  return tag && { length: tag[0].length, closing: tag[0][1] === "/" ? null : `</${tag[1].toLowerCase()}>` };
}

function lineBreak(state, silent) {
  const tag = /^<br *\/?>/i.exec(state.src.slice(state.pos, state.pos + 10));
  if (!tag) return false;
  if (!silent) state.push("hardbreak", "br", 0);
  state.pos += tag[0].length;
  return true;
}

function inlineTag(state, silent) {
  if (state.src[state.pos] !== "<") return false;
  const { posMax } = state;
  const [opening, name] = OPENING.exec(state.src.slice(state.pos, state.pos + MOST_CHARACTERS)) ?? [];
  if (!opening) return false;
  const start = state.pos + opening.length;
  const inside = state.src.slice(start, Math.min(posMax, start + MOST_CHARACTERS));
  const closing = new RegExp(`</${name}\\s*>`, "i").exec(inside);
  if (!closing) return false;
  const end = start + closing.index;
  if (!silent) {
    state.push("tag_open", name.toLowerCase(), 1);
    Object.assign(state, { pos: start, posMax: end });
    state.md.inline.tokenize(state);
    state.posMax = posMax;
    state.push("tag_close", name.toLowerCase(), -1);
  }
  state.pos = end + closing[0].length;
  return true;
}

/** From a line that begins with `<details>` to the one that ends with its `</details>`; without one, to the end. */
function details(state, startLine, endLine, silent) {
  if (state.sCount[startLine] - state.blkIndent >= 4 || state.level >= DEEPEST) return false;
  const begin = state.bMarks[startLine] + state.tShift[startLine];
  const tag = DETAILS.exec(state.src.slice(begin, state.eMarks[startLine]));
  if (!tag) return false;
  if (silent) return true;

  const nextLine = cutAtEnd(state, startLine, endLine);
  beginAt(state, startLine, begin + tag[0].length);
  const { lineMax, parentType } = state;
  Object.assign(state, { lineMax: nextLine, parentType: "details" });
  const open = state.push("details_open", "details", 1);
  open.map = [startLine, nextLine];
  if (/\sopen\b/i.test(tag[1] ?? "")) open.attrSet("open", "");
  state.md.block.tokenize(state, summary(state, startLine, nextLine), nextLine);
  state.push("details_close", "details", -1);
  Object.assign(state, { lineMax, parentType, line: nextLine });
  return true;
}

/** The line after the details that begin at `startLine`; the tag that ends them is cut off. */
function cutAtEnd(state, startLine, endLine) {
  let [open, fence] = [0, null];
  for (let line = startLine; line < endLine; line += 1) {
    if (state.sCount[line] < state.blkIndent && !state.isEmpty(line)) return line;
    const begin = state.bMarks[line] + state.tShift[line];
    const text = state.src.slice(begin, state.eMarks[line]);
    const [mark] = FENCE.exec(text) ?? [];
    if (fence) {
      if (mark?.startsWith(fence) && text.trimEnd() === mark) fence = null;
      continue;
    }
    if (mark) fence = mark;
    if (DETAILS.test(text)) open += 1;
    const closing = CLOSED_DETAILS.exec(text.slice(-LONGEST_ENDS));
    if (!closing) continue;
    open -= closing[0].split("<").length - 1;
    if (open > 0) continue;
    state.eMarks[line] = begin + text.lastIndexOf("<");
    return line + 1;
  }
  return endLine;
}

/** Has this line begin at `at`: what is before it has been read. */
function beginAt(state, line, at) {
  state.bMarks[line] = Math.min(state.skipSpaces(at), state.eMarks[line]);
  state.tShift[line] = 0;
  state.sCount[line] = state.blkIndent;
}

/** Reads the summary if there is one; the line where the rest begins. */
function summary(state, startLine, endLine) {
  const first = Math.min(state.skipEmptyLines(startLine), endLine - 1);
  const begin = state.bMarks[first] + state.tShift[first];
  const [tag] = SUMMARY.exec(state.src.slice(begin, state.eMarks[first])) ?? [];
  if (!tag) return startLine;
  beginAt(state, first, begin + tag.length);
  const texts = [];
  let line = first;
  for (; line < endLine && (line === first || !state.isEmpty(line)); line += 1) {
    const from = state.bMarks[line] + state.tShift[line];
    const text = state.src.slice(from, state.eMarks[line]);
    const closing = /<\/summary\s*>/i.exec(text);
    texts.push(text.slice(0, closing?.index));
    if (!closing) continue;
    beginAt(state, line, from + closing.index + closing[0].length);
    break;
  }
  state.push("summary_open", "summary", 1);
  const inline = state.push("inline", "", 0);
  Object.assign(inline, { content: texts.join("\n").trim(), map: [first, Math.min(line + 1, endLine)], children: [] });
  state.push("summary_close", "summary", -1);
  return line;
}
