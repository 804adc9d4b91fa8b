/**
 * Brings an element to what was rendered anew by changing only what differs, so that the selection, the focus, scroll
 * positions and what a click has changed stay. morphdom compares; texts that grow are appended to, because a text that
 * is set anew loses its selection.
 */

import { colourCode, growCode } from "./code-blocks.js";
import { typeset } from "./formulas.js";
import morphdom from "./vendor/morphdom.js";

/** The element that stands for `rendered` now. What grows at its end needs no keys to find what belongs together. */
export const morph = (element, rendered) =>
  morphdom(element, rendered, { onBeforeElUpdated: isToBeMorphed, getNodeKey: () => null });

/** Sets formulas and colours code in an element that is in the page; `whole`: it is not going to grow. */
export function enliven(element, whole) {
  typeset(element);
  colourCode(element, whole);
}

function isToBeMorphed(element, rendered) {
  if (areSameDetails(element, rendered)) rendered.open = element.open;
  if (element.isEqualNode(rendered)) return false;
  if (element.matches(".code") && rendered.matches(".code")) {
    growCode(element, rendered);
    return false;
  }
  if (isSame(element, rendered, ".formula", "tex") || isSame(element, rendered, ".outside-image", "src")) return false;
  growTexts(element, rendered);
  return true;
}

/** Their reader may have opened or closed them. */
const areSameDetails = (element, rendered) =>
  element.matches("details") && rendered.matches("details") && element.firstChild?.isEqualNode(rendered.firstChild);

/** Their contents have changed since they were rendered, by typesetting or by a click, and are right. */
const isSame = (element, rendered, selector, name) =>
  element.matches(selector) && rendered.matches(selector) && element.dataset[name] === rendered.dataset[name];

function growTexts(element, rendered) {
  let [text, now] = [element.firstChild, rendered.firstChild];
  while (text && now) {
    if (text.nodeType === Node.TEXT_NODE && now.nodeType === Node.TEXT_NODE) growText(text, now.data);
    [text, now] = [text.nextSibling, now.nextSibling];
  }
}

function growText(node, text) {
  const before = node.data;
  let same = 0;
  while (same < before.length && before[same] === text[same]) same += 1;
  if (same < before.length || same < text.length) node.replaceData(same, before.length - same, text.slice(same));
}
