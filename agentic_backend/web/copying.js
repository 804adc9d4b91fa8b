/**
 * What of a conversation is copied: its texts, as rich text and as text, with formulas as TeX. The page's own words and
 * colours stay here: buttons, marks, what a dark theme paints.
 */

import { elementsOf, renderBlocks } from "./markdown.js";

/** What is beside the texts, as commands, or can't be carried elsewhere. */
const BESIDE =
  "button:not(.tool > .card-head, :is(.card-head, .run-head)[aria-expanded=true]), .code-head, .answer-footer, " +
  ".question-foot, .alert-mark, .notes .note-link, .spinner, .dots, [aria-hidden=true], [hidden], [popover], " +
  ".in-print, form, iframe, svg, img[src^='blob:']";
const KEPT = new Set(["alt", "colspan", "dir", "href", "rowspan", "src", "start"]);
/** Without these around them, their parts would mean something else. */
const AROUND = "pre, pre *, ol, ul, table, thead, tbody, tr";

document.addEventListener("copy", copied);

function copied(event) {
  const { target, defaultPrevented, clipboardData } = event;
  const view = document.querySelector(".messages");
  if (!view || defaultPrevented || target.closest?.("input, textarea")) return;
  const ranges = rangesIn(view);
  if (!ranges.length) return;
  const pieces = ranges.map(pieceOf);
  clipboardData.setData("text/plain", pieces.map(({ text }) => text).join("\n"));
  clipboardData.setData("text/html", pieces.map(({ html }) => html).join(""));
  event.preventDefault();
}

/** What is selected in the view, each formula whole. */
function rangesIn(view) {
  const selection = document.getSelection();
  const all = Array.from({ length: selection.isCollapsed ? 0 : selection.rangeCount }, (_, i) => selection.getRangeAt(i));
  return all.filter((range) => range.intersectsNode(view)).map((range) => within(range.cloneRange(), view));
}

function within(range, view) {
  if (!view.contains(range.startContainer)) range.setStart(view, 0);
  if (!view.contains(range.endContainer)) range.setEnd(view, view.childNodes.length);
  const [first, last] = [range.startContainer, range.endContainer].map((node) => elementOf(node).closest(".formula"));
  if (first) range.setStartBefore(first);
  if (last) range.setEndAfter(last);
  return range;
}

const elementOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement);

function pieceOf(range) {
  const piece = document.createElement("div");
  piece.style.display = "contents";
  piece.append(range.cloneContents());
  clean(piece);
  let rich = [...piece.cloneNode(true).childNodes];
  let shown = piece;
  let isAround = true;
  for (let each = elementOf(range.commonAncestorContainer); !each.matches(".messages"); each = each.parentElement) {
    shown = around(each, [shown]);
    isAround &&= each.matches(AROUND);
    if (isAround) rich = [around(each, rich)];
  }
  return { text: textOf(shown), html: plain(rich) };
}

function around(element, nodes) {
  const made = element.cloneNode(false);
  made.append(...nodes);
  return made;
}

/** Leaves of the elements in `root` what is a text of its author. */
function clean(root) {
  for (const image of root.querySelectorAll(".outside-image")) {
    const link = document.createElement("a");
    link.href = image.dataset.src;
    link.append(image.querySelector("img")?.alt || image.querySelector(".image-alt")?.textContent || link.href);
    image.replaceWith(link);
  }
  for (const formula of root.querySelectorAll(".formula")) {
    const { tex } = formula.dataset;
    formula.replaceChildren(formula.matches(".display") ? `$$${tex}$$` : `\\(${tex}\\)`);
  }
  for (const task of root.querySelectorAll(".task")) task.replaceChildren(task.matches(".done") ? "☑" : "☐");
  // A question has line breaks by its style.
  for (const text of root.querySelectorAll(".question p")) {
    const [first, ...others] = text.textContent.split("\n");
    text.textContent = first;
    for (const line of others) text.append(document.createElement("br"), line);
  }
  for (const beside of root.querySelectorAll(BESIDE)) beside.remove();
}

/** The text of an element that is not in the page, with its lines and cells as they would be shown. */
function textOf(element) {
  const place = document.createElement("div");
  place.className = "visually-hidden";
  place.append(element);
  document.body.append(place);
  const text = place.innerText;
  place.remove();
  return text.replace(/^\n+|\n+$/g, "");
}

/** HTML of these nodes in which nothing looks as it does here. */
function plain(nodes) {
  const root = document.createElement("div");
  root.append(...nodes);
  for (const element of root.querySelectorAll("*")) {
    for (const { name, value } of [...element.attributes]) {
      const isKept = KEPT.has(name) ? !value.startsWith("#") : name === "class" && element.matches("code");
      if (!isKept) element.removeAttribute(name);
    }
    if (element.matches("span, button")) element.replaceWith(...element.childNodes);
  }
  return root.innerHTML;
}

/** The HTML of a whole text. */
export function htmlOf(markdown) {
  const root = document.createElement("div");
  root.append(...elementsOf(renderBlocks(markdown).blocks.map(({ html }) => html)));
  clean(root);
  return plain([...root.childNodes]);
}
