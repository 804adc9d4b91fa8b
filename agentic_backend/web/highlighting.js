/**
 * Colours for code, by highlight.js, which is loaded when the first code appears whose language it may know.
 *
 * Code is coloured when the browser is idle. The text in the page never changes by it, and an element in which something
 * is selected waits until it is not. While code is written it is coloured from time to time, whenever it has grown by a
 * tenth: highlight.js reads from the beginning each time. Elements that have their colours already stay in place.
 */

import { codeNodes } from "./code-text.js";

/** Beyond this it stays plain, in characters: it is read at once. */
const MOST = 30_000;
const GROWTH = 1.1;
const FIRST_GROWTH = 160;

const loaded = { highlighter: null };
/** Elements that wait for their colours, and whether their code is whole. */
const waiting = new Map();
const schedule = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
let scheduled = false;

/** How long each element's code was when it got its colours. */
const coloured = new WeakMap();

const languageOf = (element) => element.closest("code").className.slice("language-".length).toLowerCase();

/** Colours `element`: a `code` whose class names its language, as in `language-python`, or a chunk of its lines. */
export function colour(element, whole) {
  if (!languageOf(element)) return;
  waiting.set(element, whole || waiting.get(element) || false);
  if (scheduled) return;
  scheduled = true;
  schedule(work);
}

async function work() {
  try {
    loaded.highlighter ??= (await import("./vendor/highlight.js")).default;
  } catch {
    // Without it code stays plain; what comes next asks for it again.
    waiting.clear();
  }
  scheduled = false;
  const [next] = waiting;
  if (!next) return;
  const [element, whole] = next;
  waiting.delete(element);
  if (element.isConnected) colourNow(element, whole);
  if (waiting.size) {
    scheduled = true;
    schedule(work);
  }
}

function colourNow(element, whole) {
  const { textContent: text } = element;
  const before = coloured.get(element) ?? 0;
  if (text.length === before || text.length > MOST) return;
  if (!whole && text.length < Math.max(before * GROWTH, before + FIRST_GROWTH)) return;
  // It has chunks by now, which are coloured one by one.
  if (element.firstElementChild?.matches(".lines")) return;
  if (!loaded.highlighter.getLanguage(languageOf(element))) return;
  if (isSelectedIn(element)) {
    if (whole) document.addEventListener("selectionchange", () => colour(element, true), { once: true });
    return;
  }
  // A line that is not whole may get other colours with its next character.
  const end = whole ? text.length : text.lastIndexOf("\n") + 1;
  const options = { language: languageOf(element), ignoreIllegals: true };
  const result = loaded.highlighter.highlight(text.slice(0, end), options);
  const nodes = result._emitter.rootNode.children.flatMap(nodesOf);
  if (end < text.length) nodes.push(...codeNodes(text.slice(end)));
  replaceFromFirstChange(element, nodes);
  coloured.set(element, end);
  if (whole && result._top.parent) joinNext(element);
}

/** A chunk that ends within a string, say, is read together with the next one. */
function joinNext(element) {
  const next = element.nextElementSibling;
  if (!next?.matches(".lines")) return;
  const lines = [element, next].reduce((sum, { style }) => sum + Number(style.getPropertyValue("--lines")), 0);
  element.style.setProperty("--lines", lines);
  element.append(...next.childNodes);
  next.remove();
  colour(element, true);
}

/** A node of highlight.js's tree as those of the page. */
function nodesOf(child) {
  if (typeof child === "string") return codeNodes(child);
  const element = document.createElement("span");
  if (child.scope) element.className = `hljs-${child.scope.split(".")[0]}`;
  element.append(...child.children.flatMap(nodesOf));
  return [element];
}

function replaceFromFirstChange(element, nodes) {
  const old = [...element.childNodes];
  let same = 0;
  while (same < old.length && same < nodes.length && old[same].isEqualNode(nodes[same])) same += 1;
  for (const node of old.slice(same)) node.remove();
  element.append(...nodes.slice(same));
}

function isSelectedIn(element) {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
}
