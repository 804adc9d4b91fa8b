/**
 * Blocks of code: their HTML, their growth, and what their buttons do.
 *
 * A block's code may be longer than what is in the page: one that is folded holds its first lines there. `codeOf` is
 * all of it. The language of a diagram (`mermaid`, say) is shown as code as well: a renderer for it is larger than this
 * whole page, and to send the text to one elsewhere would tell that host what was said.
 */

import { copyText } from "./clipboard.js";
import { codeNodes, withMarkedBidi } from "./code-text.js";
import { formatCount } from "./format.js";
import { colour } from "./highlighting.js";
import { t } from "./i18n.js";
import { persistently } from "./persistently.js";

const COPIED_MS = 1_500;

/** Longer code is folded when it is shown whole; while it is written, its reader follows it. */
const MOST_LINES = 400;
const FOLDED_LINES = 30;

/** Code of more lines than `MOST_LINES` stands in chunks of so many: what is added has only the last one laid out anew. */
const CHUNK_LINES = 200;

/** Code of more chunks stays plain. */
const MOST_COLOURED = 15;

const DIAGRAMS = new Set(["dot", "graphviz", "mermaid", "plantuml"]);

/** All of the code of a block that is folded, by its element. */
const codes = new WeakMap();

/** What takes the preview of a block away, by its element. */
const previews = new WeakMap();

/** The HTML of a block; `escaped` makes text fit for HTML. */
export function codeBlock(code, language, escaped) {
  const copy = DIAGRAMS.has(language) ? t("Copy diagram source") : t("Copy");
  return (
    `<div class="code"><div class="code-head"><span class="code-language">${escaped(language)}</span>` +
    // Seen where the language has one, which may become known while it is written.
    `<button type="button" class="preview-code" aria-pressed="false">${escaped(t("Preview"))}</button>` +
    `<button type="button" class="wrap-code" aria-pressed="false">${escaped(t("Wrap"))}</button>` +
    `<button type="button" class="copy-code">${escaped(copy)}</button></div>` +
    `<pre dir="ltr" tabindex="0"><code class="language-${escaped(language)}">${withMarkedBidi(escaped(code)).replace(/^\n+$/, lineBreaks)}</code></pre></div>`
  );
}

/** As entities: line breaks with nothing but tags beside them are taken for none of the text's. */
const lineBreaks = (text) => "&#10;".repeat(text.length);

export const codeOf = (block) => codes.get(block) ?? block.querySelector("code").textContent;

/** Shows `code` in the block. What stands there already stays as it is if `code` begins with it. */
const setCode = (block, code) => replaceEnd(block, codeOf(block), code);

/** Shows `end` in place of `before`, with which the block's code ends. */
export function replaceEnd(block, before, end) {
  if (end.startsWith(before)) return append(block, end.slice(before.length));
  const code = codeOf(block);
  block.querySelector("code").replaceChildren();
  append(block, code.slice(0, code.length - before.length) + end);
}

function append(block, text) {
  if (!text) return;
  const element = block.querySelector("code");
  let chunk = element.lastElementChild;
  if (!chunk?.matches(".lines")) {
    if (linesIn(element.textContent) + linesIn(text) <= MOST_LINES) return appendText(element, text);
    block.classList.add("long");
    chunk = newChunk(element, [...element.childNodes]);
  }
  for (let at = 0; at < text.length; ) {
    const end = afterLines(text, at, CHUNK_LINES - linesIn(chunk.textContent));
    if (end > at) appendText(chunk, text.slice(at, end));
    chunk.style.setProperty("--lines", linesIn(chunk.textContent));
    if (end < text.length) chunk = newChunk(element, []);
    at = end;
  }
}

function newChunk(element, nodes) {
  const chunk = document.createElement("span");
  chunk.className = "lines";
  chunk.append(...nodes);
  return element.appendChild(chunk);
}

function appendText(element, text) {
  const [first, ...others] = codeNodes(text);
  if ([element.lastChild, first].every((node) => node?.nodeType === Node.TEXT_NODE)) {
    element.lastChild.appendData(first.data);
    element.append(...others);
  } else element.append(first, ...others);
}

const linesIn = (text) => text.split("\n").length - 1;

/** Where in `text` so many lines from `at` on end. */
function afterLines(text, at, count) {
  let end = at;
  for (let line = 0; line < count; line += 1) {
    end = text.indexOf("\n", end) + 1;
    if (end === 0) return text.length;
  }
  return end;
}

/** Takes over the growth of a block from the same block rendered anew. */
export function growCode(block, rendered) {
  const [language, now] = [block, rendered].map((each) => each.querySelector(".code-language"));
  if (language.textContent !== now.textContent) {
    language.textContent = now.textContent;
    block.querySelector("code").className = rendered.querySelector("code").className;
  }
  setCode(block, codeOf(rendered));
}

/** Folds the long blocks in `element`, which is not in the page yet: their other lines are never laid out. */
export function foldCode(element) {
  for (const block of blocksIn(element)) {
    const code = codeOf(block);
    const lines = code.split("\n", MOST_LINES + 1);
    if (lines.length <= MOST_LINES) continue;
    codes.set(block, code);
    block.querySelector("code").replaceChildren(...codeNodes(`${lines.slice(0, FOLDED_LINES).join("\n")}\n`));
    const button = document.createElement("button");
    button.type = "button";
    button.className = "unfold-code";
    const count = code.split("\n").length - (code.endsWith("\n") ? 1 : 0);
    button.textContent = t("Show all {count} lines", { count: formatCount(count) });
    block.append(button);
  }
}

const blocksIn = (element) => (element.matches(".code") ? [element] : element.querySelectorAll(".code"));

/** Colours the code in `element`; `whole` says that it is not going to grow. */
export function colourCode(element, whole) {
  for (const block of blocksIn(element)) {
    const code = block.querySelector("code");
    if (!block.matches(".long")) colour(code, whole);
    else if (code.children.length <= MOST_COLOURED) {
      // Those before have been coloured.
      for (const chunk of [...code.children].slice(whole ? 0 : -2)) colour(chunk, whole || chunk !== code.lastChild);
    }
  }
}

/** What a click on one of a block's buttons does. */
export function codeClicked(button) {
  const block = button.closest(".code");
  if (button.matches(".copy-code")) copy(button, block);
  else if (button.matches(".wrap-code")) wrap(button, block);
  else if (button.matches(".preview-code")) togglePreview(button, block);
  else unfold(button, block);
}

async function copy(button, block) {
  const label = button.textContent;
  const rich = document.createElement("pre");
  rich.dir = "ltr";
  rich.append(block.querySelector("code").cloneNode(false));
  rich.firstChild.textContent = codeOf(block);
  await copyText(codeOf(block), rich.outerHTML);
  if (label === t("Copied")) return;
  button.textContent = t("Copied");
  setTimeout(() => (button.textContent = label), COPIED_MS);
}

async function togglePreview(button, block) {
  const isWanted = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(isWanted));
  if (!isWanted) {
    previews.get(block)?.();
    previews.delete(block);
    return;
  }
  const { preview } = await persistently(() => import("./panels/code-preview.js"));
  // Pressed again meanwhile, it is not wanted any more.
  if (button.getAttribute("aria-pressed") !== "true" || previews.has(block)) return;
  previews.set(block, preview(block, codeOf(block), block.querySelector(".code-language").textContent));
}

function wrap(button, block) {
  const wrapped = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(wrapped));
  block.classList.toggle("wrapped", wrapped);
}

function unfold(button, block) {
  block.querySelector("code").replaceChildren();
  append(block, codes.get(block));
  codes.delete(block);
  button.remove();
  block.querySelector("pre").focus({ preventScroll: true });
  colourCode(block, true);
}
