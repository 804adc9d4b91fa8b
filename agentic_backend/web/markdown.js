/**
 * Untrusted Markdown to HTML, a top-level block at a time, and HTML to elements that are safe to show.
 *
 * markdown-it renders with raw HTML off, but for the tags of html-tags.js; DOMPurify then lets only the tags and
 * attributes through that this renderer makes. Each block becomes one element. The renderer's own marks get their life
 * elsewhere: `.code` in code-blocks.js, `.formula` in formulas.js, `.outside-image` in images.js.
 */

import { cjkEmphasis } from "./cjk-emphasis.js";
import { codeBlock } from "./code-blocks.js";
import { withMarkedBidi } from "./code-text.js";
import { formulas } from "./formulas.js";
import { htmlTags } from "./html-tags.js";
import { t } from "./i18n.js";
import { askForImage, imageAt } from "./images.js";
import { safeHref, withHonestHosts } from "./links.js";
import { steadyInline } from "./steady.js";
import { alert } from "./vendor/markdown-it-alert.js";
import footnote from "./vendor/markdown-it-footnote.js";
import { tasklist } from "./vendor/markdown-it-tasklist.js";
import MarkdownIt from "./vendor/markdown-it.js";
import DOMPurify from "./vendor/purify.js";

/** A table's rows stand in groups of so many: while it is written, those out of sight cost a frame nothing. */
export const ROWS = 32;

/** A longer table that is shown whole is folded. */
export const MOST_ROWS = 100;
const FOLDED_ROWS = 30;

/** Of a long list, a quotation and the like about so many tokens are made into HTML at once. */
const PART = 300;

const ALERTS = {
  caution: t("Caution"),
  important: t("Important"),
  note: t("Note"),
  tip: t("Tip"),
  warning: t("Warning"),
};

/** A renderer; one for text that is `streaming` guesses what stands at its end. */
function renderer({ streaming }) {
  const markdown = new MarkdownIt({ html: false, linkify: true, breaks: true });
  // Only what is written as a URL: `main.py` and `README.md` are files, not hosts in Paraguay and Moldova.
  markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  const { validateLink } = markdown;
  // As an image an SVG runs nothing and loads nothing; the purifier takes it from links.
  markdown.validateLink = (url) => /^data:image\/svg\+xml[;,]/i.test(url.trim()) || validateLink(url);

  markdown.use(cjkEmphasis);
  markdown.use(formulas, { unfinished: streaming });
  markdown.use(footnote).disable("footnote_inline");
  markdown.use(alert, { titleRender: (tokens, index) => alertTitle(markdown, tokens[index].markup), deep: true });
  markdown.use(tasklist, { label: false });
  markdown.use(htmlTags);
  markdown.core.ruler.after("block", "list_paragraphs", paragraphsInItems);
  markdown.core.ruler.push("row_groups", rowGroups);
  markdown.core.ruler.push("list_classes", withoutListClasses);
  if (streaming) {
    markdown.core.ruler.after("list_paragraphs", "steady", steady);
    markdown.disable(["footnote_ref", "footnote_tail"]);
    markdown.inline.ruler.after("footnote_ref", "pending_note", pendingNote);
    markdown.inline.ruler.after("link", "pending_link", pendingLink);
  }
  Object.assign(markdown.renderer.rules, RULES);
  return markdown;
}

/**
 * The top-level blocks of `source` as `{html, rest, start, end, kind, items}`: the lines where it begins and ends, and for
 * a list those where its items begin. `references` are definitions from before `source`, `notes` the numbers of its
 * footnotes by label, which streaming adds to; `id` tells the notes of this text from another's. With `folds` a long
 * table's HTML has its first rows, and `rest` is `{rows, parts}`: how many it has, and a generator of tables with others.
 */
export function renderBlocks(source, options = {}) {
  const { streaming = false, folds = false, references = {}, notes = new Map(), id = "" } = options;
  const environment = { references: { ...references }, notes, docId: id };
  const markdown = streaming ? STREAMING : WHOLE;
  const blocks = topLevel(markdown.parse(source, environment)).map((tokens) => {
    const { shown, rest } = folded(tokens, folds);
    return {
      ...extent(tokens),
      html: htmlOf(markdown, shown, environment),
      rest: rest && { ...rest, parts: () => rest.parts.map((part) => htmlOf(markdown, part, environment)) },
      kind: KINDS[tokens[0].type] ?? null,
      items: tokens.filter(({ type, level }) => type === "list_item_open" && level === 1).map(({ map }) => map[0]),
    };
  });
  return { blocks, references: environment.references };
}

/**
 * The same of a whole text in many steps, so that a long one doesn't keep the page busy: a generator, which yields
 * between steps and returns the blocks as `{start, end, parts, rest}`. Their HTML is made when it is asked for: `parts`
 * is a generator of it, of which a long list or quotation has several, each with some of what is in it.
 */
export function* renderInSteps(source, { folds, id }) {
  const environment = { references: {}, notes: new Map(), docId: id };
  let blocks = [];
  for (const tokens of readBlocks(source, environment)) {
    blocks.push(tokens);
    yield;
  }
  const hasNotes = Boolean(environment.footnotes);
  if (hasNotes) {
    // They are numbered in the order of their marks, and stand at the end.
    for (const tokens of blocks) {
      process(INLINE, tokens, environment);
      yield;
    }
    blocks = topLevel(process(NOTES, blocks.flat(), environment));
  }
  function* render(parts) {
    for (const part of parts) yield htmlOf(WHOLE, hasNotes ? part : process(INLINE, part, environment), environment);
  }
  return blocks.map((tokens) => {
    const { shown, rest } = folded(tokens, folds);
    return {
      ...extent(tokens),
      parts: () => render(partsOf(shown)),
      rest: rest && { ...rest, parts: () => render(rest.parts) },
    };
  });
}

/** The tokens of each top-level block, whose words aren't read yet. */
function* readBlocks(source, environment) {
  const text = source.replace(/\r\n?/g, "\n").replaceAll("\0", "\ufffd");
  const state = new WHOLE.block.State(text, WHOLE, environment, []);
  const rules = WHOLE.block.ruler.getRules("");
  for (let line = state.skipEmptyLines(0); line < state.lineMax; line = state.skipEmptyLines(state.line)) {
    state.line = line;
    state.tokens = [];
    rules.find((rule) => rule(state, line, state.lineMax, false));
    yield* topLevel(state.tokens);
  }
}

function process(markdown, tokens, environment) {
  const state = new markdown.core.State("", markdown, environment);
  state.tokens = tokens;
  markdown.core.process(state);
  return state.tokens;
}

const htmlOf = (markdown, tokens, environment) =>
  compact(markdown.renderer.render(tokens, markdown.options, environment));

const HAVE_PARTS = new Set("alert_open blockquote_open bullet_list_open details_open ordered_list_open".split(" "));

/** A list as several with some of its items each, and so on. */
function partsOf(tokens) {
  if (tokens.length <= PART || !HAVE_PARTS.has(tokens[0].type)) return [tokens];
  const parts = [];
  let part = [];
  for (const inside of topLevel(tokens.slice(1, -1))) {
    if (part.length > PART) {
      parts.push(part);
      part = [];
    }
    part.push(...inside);
  }
  return [...parts, part].map((part) => [tokens[0], ...part, tokens.at(-1)]);
}

/** The tokens of a long table with its first rows, and of tables with its other rows. */
function folded(tokens, folds) {
  if (!folds || tokens[0].type !== "table_open") return { shown: tokens, rest: null };
  const body = tokens.findIndex(({ type }) => type === "tbody_open");
  const rows = body < 0 ? [] : topLevel(tokens.slice(body + 1, -2));
  if (rows.length <= MOST_ROWS) return { shown: tokens, rest: null };
  const close = tokens.slice(-2);
  const parts = [];
  for (let at = FOLDED_ROWS; at < rows.length; at += ROWS) {
    parts.push([tokens[0], tokens[body], ...rows.slice(at, at + ROWS).flat(), ...close]);
  }
  return {
    shown: [...tokens.slice(0, body + 1), ...rows.slice(0, FOLDED_ROWS).flat(), ...close],
    rest: { rows: rows.length, parts },
  };
}

const KINDS = { bullet_list_open: "list", ordered_list_open: "list", table_open: "table", fence: "fence" };

function topLevel(tokens) {
  const blocks = [];
  let block = [];
  let depth = 0;
  for (const token of tokens) {
    block.push(token);
    depth += token.nesting;
    if (depth > 0) continue;
    blocks.push(block);
    block = [];
  }
  return blocks;
}

function extent(tokens) {
  let [start, end] = [Infinity, 0];
  for (const { map } of tokens) {
    if (!map) continue;
    start = Math.min(start, map[0]);
    end = Math.max(end, map[1]);
  }
  return { start, end };
}

/** Line breaks between tags show nothing and would be text nodes. */
const compact = (html) => html.replace(/>\n+(?=<)/g, ">").trimEnd();

const ALLOWED = {
  ALLOWED_TAGS: (
    "a blockquote br button code del details div em h1 h2 h3 h4 h5 h6 hr img kbd li ol p pre s section span strong " +
    "sub summary sup table tbody td th thead tr ul"
  ).split(" "),
  ALLOWED_ATTR: (
    "alt aria-label aria-pressed class data-src data-tex dir href id loading open rel role src start tabindex target " +
    "title type"
  ).split(" "),
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const purifier = DOMPurify(window);
// Once for all: given with a call, it is read anew each time, which takes longer than a block that streams.
purifier.setConfig(ALLOWED);
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName !== "A" || node.matches(".note-link")) return;
  const target = safeHref(node.getAttribute("href"));
  const honest = withHonestHosts(node.textContent);
  if (honest !== node.textContent) node.textContent = honest;
  if (!target) {
    node.removeAttribute("href");
    return;
  }
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

/** Each block that stands on its own is written in the direction of its own text; what is inside has it by its style. */
const HAVE_DIRECTION = "blockquote, details, h1, h2, h3, h4, h5, h6, ol, p, ul, .alert";

/** The elements of these pieces of HTML, one of each, fit to insert. */
export function elementsOf(htmls) {
  // One call for all: what a call costs is mostly the same for one block and for a hundred.
  const elements = [...purifier.sanitize(htmls.join("")).children];
  // Not by the HTML: Chromium looks for the direction with each child that is parsed.
  for (const element of elements) if (element.matches(HAVE_DIRECTION)) element.dir = "auto";
  if (elements.length === htmls.length) return elements;
  return htmls.map((html) => {
    const element = document.createElement("div");
    element.append(purifier.sanitize(html));
    return element;
  });
}

/**
 * An item of a list is its text, without a paragraph around it, unless it has several paragraphs. CommonMark lets the
 * list decide, all items alike; then one blank line would change all that were written before it.
 */
function paragraphsInItems({ tokens }) {
  const items = [];
  for (const token of tokens) {
    const item = items.at(-1);
    if (token.type === "list_item_open") items.push({ level: token.level, paragraphs: [] });
    else if (token.type === "list_item_close") {
      const { paragraphs } = items.pop();
      // Each opens and closes.
      for (const paragraph of paragraphs) paragraph.hidden = paragraphs.length <= 2;
    } else if (/^paragraph_(open|close)$/.test(token.type) && token.level === item?.level + 1) {
      item.paragraphs.push(token);
    }
  }
}

function rowGroups({ tokens }) {
  let rows = 0;
  for (const token of tokens) {
    if (token.type === "thead_open" || token.type === "tbody_open") rows = 0;
    if (token.type !== "tr_open") continue;
    token.meta = { beginsGroup: rows > 0 && rows % ROWS === 0 };
    rows += 1;
  }
}

/** A list would get a class as soon as one of its items is a task. */
function withoutListClasses({ tokens }) {
  for (const token of tokens) {
    if (/_list_open$/.test(token.type)) token.attrs = token.attrs?.filter(([name]) => name !== "class") ?? null;
  }
}

/** What stands at the end of a text that goes on is shown as what it will probably be. */
function steady({ tokens, src }) {
  if (/\n[ \t]*\n$/.test(src)) return;
  const isSkipped = ({ type, nesting, content }) =>
    nesting === -1 || type === "td_open" || (type === "inline" && !content);
  const index = tokens.findLastIndex((token) => !isSkipped(token));
  const token = tokens[index];
  if (token?.type !== "inline") return;
  // A paragraph may go on in the next line; a heading and a row do not.
  if (src.endsWith("\n") && tokens[index + 1].type !== "paragraph_close") return;
  token.content = steadyInline(token.content);
}

/** A footnote's mark while its note is not written yet: it gets the number that it will have. */
function pendingNote(state, silent) {
  const mark = /^\[\^([^\]\s]{1,100})\]/.exec(state.src.slice(state.pos, state.pos + 110));
  if (!mark) return false;
  if (!silent) {
    const { notes } = state.env;
    if (!notes.has(mark[1])) notes.set(mark[1], notes.size);
    // Which of its marks is the first, to be come back to, is known when the text is whole.
    state.push("footnote_ref", "", 0).meta = { id: notes.get(mark[1]), subId: 1 };
  }
  state.pos += mark[0].length;
  return true;
}

/** A link whose target is not written yet, as `[text][name]`: its text. */
function pendingLink(state, silent) {
  const link = /^\[([^\[\]]{1,200})\]\[[^\[\]]{0,100}\]/.exec(state.src.slice(state.pos, state.pos + 310));
  if (!link) return false;
  if (!silent) state.pending += link[1];
  state.pos += link[0].length;
  return true;
}

const ICONS = { caution: "!", important: "!", note: "i", tip: "✓", warning: "!" };

const alertTitle = (markdown, kind) =>
  `<p class="alert-title"><span class="alert-mark">${ICONS[kind]}</span>${markdown.utils.escapeHtml(ALERTS[kind])}</p>`;

/** markdown-it aligns cells by a style attribute, which the content security policy forbids. */
function cell(tokens, index, options, _environment, self) {
  const alignment = /text-align:(\w+)/.exec(tokens[index].attrGet("style") ?? "")?.[1];
  tokens[index].attrs = alignment ? [["class", `align-${alignment}`]] : [];
  return self.renderToken(tokens, index, options);
}

function alertOpen(tokens, index, options, _environment, self) {
  tokens[index].attrSet("class", `alert ${tokens[index].markup}`);
  return self.renderToken(tokens, index, options);
}

const noteId = ({ id }, { docId }) => `${docId}-note-${id + 1}`;

const RULES = {
  th_open: cell,
  td_open: cell,
  alert_open: alertOpen,
  // What scrolls has to be within reach of the keyboard.
  table_open: () => `<div class="table" tabindex="0" role="group" aria-label="${escaped(t("Table"))}"><table>`,
  table_close: () => "</table></div>",
  tr_open: (tokens, index) => (tokens[index].meta.beginsGroup ? "</tbody><tbody><tr>" : "<tr>"),
  code_inline: (tokens, index) => `<code>${withMarkedBidi(escaped(tokens[index].content))}</code>`,
  fence: (tokens, index) => codeBlock(tokens[index].content, tokens[index].info.trim().split(/\s+/)[0], escaped),
  code_block: (tokens, index) => codeBlock(tokens[index].content, "", escaped),
  image,
  checkbox_input(tokens, index) {
    const done = tokens[index].attrGet("checked") !== null;
    return `<span class="${done ? "task done" : "task"}" role="img" aria-label="${escaped(done ? t("Done") : t("To do"))}"></span>`;
  },
  footnote_ref(tokens, index, _options, environment) {
    const { meta } = tokens[index];
    const [id, number] = [noteId(meta, environment), meta.id + 1];
    const anchor = meta.subId > 0 ? "" : ` id="${id}-mark"`;
    return `<sup class="note-mark"${anchor}><a class="note-link" href="#${id}">${number}</a></sup>`;
  },
  footnote_block_open: () => '<section class="notes"><ol>',
  footnote_block_close: () => "</ol></section>",
  footnote_open: (tokens, index, _options, environment) =>
    `<li id="${noteId(tokens[index].meta, environment)}" dir="auto" tabindex="-1">`,
  footnote_close: () => "</li>",
  footnote_anchor(tokens, index, _options, environment) {
    const { meta } = tokens[index];
    if (meta.subId > 0) return "";
    const label = escaped(t("Back to the text"));
    return ` <a class="note-link" href="#${noteId(meta, environment)}-mark" aria-label="${label}">↩\uFE0E</a>`;
  },
  // Of a text that streams: its place is the end, where it will stand.
  footnote_reference_open(tokens, index, _options, { notes }) {
    const { label } = tokens[index].meta;
    return `<section class="notes"><ol start="${(notes.get(label) ?? notes.size) + 1}"><li dir="auto">`;
  },
  footnote_reference_close: () => "</li></ol></section>",
};

function image(tokens, index) {
  const source = tokens[index].attrGet("src") ?? "";
  const alt = escaped(tokens[index].content);
  const shown = imageAt(source);
  if (!shown) return `<a href="${escaped(source)}">${alt || escaped(source)}</a>`;
  const [href, host] = [shown.href, shown.host ?? ""].map(escaped);
  if (!host) return `<img src="${href}" alt="${alt}" loading="lazy">`;
  const [before, after] = askForImage.map(escaped);
  return (
    `<span class="outside-image" data-src="${href}"><button type="button" class="show-image" title="${href}">` +
    `${before}<span class="image-host">${host}</span>${after}${alt && `: <span class="image-alt">${alt}</span>`}</button></span>`
  );
}

function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

const WHOLE = renderer({ streaming: false });
const STREAMING = renderer({ streaming: true });
/** What `WHOLE` does once its blocks are known, but for the notes, and what it does with those. */
const INLINE = renderer({ streaming: false });
INLINE.core.ruler.disable(["normalize", "block", "footnote_tail"]);
const NOTES = renderer({ streaming: false });
NOTES.core.ruler.enableOnly(["footnote_tail"]);
