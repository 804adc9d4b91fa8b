/** The marks of citations in an answer that is complete: `[1]` becomes a link to the source with that number. */

import { t } from "./i18n.js";
import { MARK, numbersIn } from "./sources.js";

const UNTOUCHED = "a, button, code, pre, .formula";

/** Links the marks below `root` whose numbers are those of `sources`; `idOf` names the element of a number. */
export function linkCitations(root, sources, idOf) {
  const known = new Set(sources.map(({ number }) => number));
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const marked = [];
  while (walker.nextNode()) {
    const { currentNode: text } = walker;
    if (text.data.includes("[") && !text.parentElement.closest(UNTOUCHED)) marked.push(text);
  }
  for (const text of marked) {
    const pieces = linked(text.data, known, idOf);
    if (pieces.length > 1) text.replaceWith(...pieces);
  }
}

function linked(text, known, idOf) {
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(MARK)) {
    const numbers = numbersIn(match[1]);
    if (!numbers.every((number) => known.has(number))) continue;
    pieces.push(text.slice(end, match.index), ...numbers.map((number) => mark(number, idOf(number))));
    end = match.index + match[0].length;
  }
  return [...pieces, text.slice(end)];
}

function mark(number, id) {
  const link = document.createElement("a");
  link.className = "citation";
  link.href = `#${id}`;
  link.textContent = `[${number}]`;
  link.setAttribute("aria-label", t("Source {number}", { number }));
  return link;
}

/** `{link, source}` for the mark, or the item of the list, in which `element` is; null if it is in neither. */
export function sourceAt(element, sources, idOf) {
  const link = element.closest(".citation, .source-open");
  const id = link?.matches(".citation") ? link.hash.slice(1) : link?.closest(".source").id;
  const source = link && sources.find(({ number }) => idOf(number) === id);
  return source ? { link, source } : null;
}

/** Brings the source into view that a mark of a citation leads to, and shows which one it is. */
export function citationClicked(event) {
  const link = event.target.closest(".citation");
  if (!link) return;
  // The address names the session.
  event.preventDefault();
  const source = document.getElementById(link.getAttribute("href").slice(1));
  for (const other of document.querySelectorAll(".source.current")) other.classList.remove("current");
  source?.classList.add("current");
  source?.scrollIntoView({ block: "nearest" });
  (source?.querySelector("a") ?? source)?.focus({ preventScroll: true });
}
