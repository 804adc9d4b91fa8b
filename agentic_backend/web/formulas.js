/**
 * Formulas: `\(…\)` and `$…$` within a line; `\[…\]` and `$$…$$` within one or as a block. A `$` is money by pandoc's
 * rule: unless the next one has no space before it and no digit after it, and this one no space after it.
 *
 * The renderer writes `.formula` with the TeX as its text and in `data-tex`; `typeset` makes MathML of it once temml is
 * there, which is loaded when the first formula appears. TeX that temml does not take stays as it was written.
 */

const MOST_CHARACTERS = 10_000;

const DELIMITERS = [
  { open: "\\(", close: "\\)", display: false },
  { open: "\\[", close: "\\]", display: true },
  { open: "$$", close: "$$", display: true },
];

/** A plugin of markdown-it. `unfinished` formulas are held back instead of shown as they are written. */
export function formulas(markdown, { unfinished }) {
  const { escapeHtml } = markdown.utils;
  const element = (tag, display) => (tokens, index) => {
    const tex = escapeHtml(tokens[index].content.trim());
    return `<${tag} class="formula${display ? " display" : ""}" data-tex="${tex}">${tex}</${tag}>`;
  };
  markdown.renderer.rules.formula = element("span", false);
  markdown.renderer.rules.formula_display = element("span", true);
  markdown.renderer.rules.formula_block = element("div", true);
  markdown.inline.ruler.before("escape", "formula", inlineFormula);
  const options = { alt: ["paragraph", "reference", "blockquote", "list"] };
  markdown.block.ruler.before("fence", "formula", (...given) => blockFormula(unfinished, ...given), options);
}

function inlineFormula(state, silent) {
  return inDelimiters(state, silent) || betweenDollars(state, silent);
}

function inDelimiters(state, silent) {
  const delimiter = DELIMITERS.find(({ open }) => state.src.startsWith(open, state.pos));
  if (!delimiter) return false;
  const start = state.pos + delimiter.open.length;
  const end = state.src.slice(start, start + MOST_CHARACTERS).indexOf(delimiter.close) + start;
  const tex = state.src.slice(start, end);
  if (!tex.trim() || end + delimiter.close.length > state.posMax) return false;
  if (!silent) state.push(delimiter.display ? "formula_display" : "formula", "", 0).content = tex;
  state.pos = end + delimiter.close.length;
  return true;
}

/** Where the formula ends that begins with the single `$` at `start`; 0: there is none. No code is in one. */
export function endOfDollars(text, start) {
  if (text[start - 1] === "$") return 0;
  const written = text.slice(start, start + MOST_CHARACTERS);
  const [tex] = /^\$(?![\s$])(?:[^$`\\]|\\[^`])*(?<!\s)\$(?!\d)/.exec(written) ?? [""];
  return tex && start + tex.length;
}

function betweenDollars(state, silent) {
  if (state.src[state.pos] !== "$") return false;
  const end = endOfDollars(state.src, state.pos);
  if (!end || end > state.posMax) return false;
  if (!silent) state.push("formula", "", 0).content = state.src.slice(state.pos + 1, end - 1);
  state.pos = end;
  return true;
}

/** A formula that begins a line and ends one, with nothing else beside it. */
function blockFormula(unfinished, state, startLine, endLine, silent) {
  if (state.sCount[startLine] - state.blkIndent >= 4) return false;
  const begin = state.bMarks[startLine] + state.tShift[startLine];
  const delimiter = DELIMITERS.find(({ open, display }) => display && state.src.startsWith(open, begin));
  if (!delimiter) return false;
  const { open, close } = delimiter;
  const lines = [];
  for (let line = startLine; line < endLine && state.sCount[line] >= state.blkIndent; line += 1) {
    const from = line === startLine ? begin + open.length : state.bMarks[line] + state.tShift[line];
    const text = state.src.slice(from, state.eMarks[line]).trimEnd();
    const at = text.indexOf(close);
    if (at >= 0) {
      if (at + close.length !== text.length) return false;
      lines.push(text.slice(0, at));
      return blockToken(state, startLine, line + 1, lines, silent);
    }
    lines.push(text);
    if (state.eMarks[line] - begin > MOST_CHARACTERS) return false;
  }
  return unfinished && blockToken(state, startLine, endLine, [], silent);
}

function blockToken(state, startLine, nextLine, lines, silent) {
  if (silent) return true;
  state.line = nextLine;
  const token = state.push("formula_block", "", 0);
  token.map = [startLine, nextLine];
  token.content = lines.join("\n");
  return true;
}

const loaded = { temml: null, asked: false };

/** Typesets the formulas in `element`, at once if temml is there. */
export function typeset(element) {
  const found = element.matches(".formula") ? [element] : [...element.querySelectorAll(".formula")];
  const unset = found.filter((formula) => !formula.matches(".not-set") && !formula.querySelector("math"));
  if (!unset.length) return;
  if (loaded.temml) for (const formula of unset) typesetOne(formula);
  else if (!loaded.asked) load();
}

async function load() {
  loaded.asked = true;
  try {
    loaded.temml = (await import("./vendor/temml.js")).default;
  } catch {
    // Offline, perhaps: the next formula tries again, and until then they are shown as TeX.
    loaded.asked = false;
    return;
  }
  typeset(document.body);
}

function typesetOne(formula) {
  const { tex } = formula.dataset;
  const displayMode = formula.matches(".display");
  const made = document.createElement("span");
  try {
    // Nothing of a formula may lead or load anything, or name a class of this page.
    loaded.temml.render(tex, made, { displayMode, throwOnError: true, trust: false, maxSize: [40, 40], maxExpand: 500 });
  } catch {
    formula.classList.add("not-set");
    return;
  }
  const math = made.querySelector("math");
  if (math && isHarmless(math)) formula.replaceChildren(math);
  else formula.classList.add("not-set");
}

const MATHML = "http://www.w3.org/1998/Math/MathML";
const ACTIVE_TAGS = new Set(["annotation-xml", "maction", "mglyph"]);
const ACTIVE_ATTRIBUTES = /^on|href$|^src$|^actiontype$/;

/** A formula is elements of MathML that lead nowhere, whatever temml makes of it. */
const isHarmless = (math) =>
  [math, ...math.querySelectorAll("*")].every(
    (node) =>
      node.namespaceURI === MATHML &&
      !ACTIVE_TAGS.has(node.localName) &&
      node.getAttributeNames().every((name) => !ACTIVE_ATTRIBUTES.test(name)),
  );
