/**
 * The scrolled view of the conversation: it stays at its end while that grows, until its reader goes elsewhere; then
 * what is read stays where it is, whatever is loaded or measured above it.
 */

import { useCallback, useLayoutEffect, useRef, useState } from "./html.js";

/** This near to its end the view counts as being there, in pixels. */
const NEAR = 80;
/** What unfolds something, or leads elsewhere in the conversation: who clicks it reads on there. */
const READS_ON = "[aria-expanded], summary, .citation, .trust .chip";
const REVEALED = "revealed";

/**
 * Brings what has been opened in the view into it, its top first, and ends the following until it is gone. `byItself`:
 * nobody has opened it; it moves only who follows, and only where its top would be out of view.
 */
export const reveal = (element, { byItself = false } = {}) =>
  element.dispatchEvent(new CustomEvent(REVEALED, { bubbles: true, detail: { byItself } }));

/**
 * Another session, or a question asked on this page, brings the view back to its end; who has `turned` to another
 * variant stays where that is.
 */
export function useScrolledView(sessionId, question, turned) {
  const view = useRef(null);
  const content = useRef(null);
  const follows = useRef(true);
  const lastTop = useRef(0);
  /** What has ended the following. */
  const opened = useRef(null);
  const [atEnd, setAtEnd] = useState(true);

  const toEnd = useCallback(() => {
    follows.current = true;
    view.current.scrollTop = view.current.scrollHeight;
    setAtEnd(true);
  }, []);
  const anchor = useRef(null);
  const goTo = useCallback((element, block = "center") => {
    follows.current = false;
    element.scrollIntoView({ block });
    lastTop.current = view.current.scrollTop;
    anchor.current.drop();
  }, []);

  useLayoutEffect(() => {
    const element = view.current;
    anchor.current = new Anchor(element, content.current);
    const isNear = () => element.scrollHeight - element.scrollTop - element.clientHeight <= NEAR;
    const scrolled = () => {
      const near = isNear();
      // Content that grows also moves the end away; only a move upwards is the user's. Where the page itself has moved
      // to, it goes on with what it did.
      if (near && element.scrollTop !== lastTop.current) follows.current = true;
      else if (element.scrollTop < lastTop.current) follows.current = false;
      lastTop.current = element.scrollTop;
      setAtEnd(near || follows.current);
      if (!follows.current) anchor.current.drop();
    };
    const resized = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
      else anchor.current.hold();
      lastTop.current = element.scrollTop;
      if (!opened.current || opened.current.isConnected) return;
      opened.current = null;
      follows.current ||= isNear();
    });
    resized.observe(content.current);
    resized.observe(element);
    const clicked = ({ target }) => {
      // What the click changes may end the following, and then this is to be held.
      anchor.current.drop();
      if (target.closest(READS_ON)) follows.current = false;
    };
    const revealed = ({ target, detail: { byItself } }) => {
      if (byItself) {
        if (!follows.current) return;
        element.scrollTop = element.scrollHeight;
        if (target.getBoundingClientRect().top >= element.getBoundingClientRect().top) return;
      }
      opened.current = target;
      goTo(target, target.offsetHeight > element.clientHeight ? "start" : "nearest");
    };
    element.addEventListener(REVEALED, revealed);
    element.addEventListener("click", clicked, { capture: true });
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener(REVEALED, revealed);
      element.removeEventListener("click", clicked, { capture: true });
      element.removeEventListener("scroll", scrolled);
    };
  }, []);
  useLayoutEffect(() => {
    if (turned) follows.current = false;
    else toEnd();
  }, [sessionId, question]);
  return { view, content, atEnd, toEnd, goTo };
}

/**
 * What stands at the top of the view, and where: the browser's own anchoring knows nothing of elements that are
 * replaced, and does nothing at the very top.
 */
class Anchor {
  #element = null;
  #section = null;
  #offset = 0;
  #sectionOffset = 0;

  constructor(view, content) {
    Object.assign(this, { view, content });
  }

  /** Puts it back to where it was before something changed. */
  hold() {
    const [element, offset] = this.#element?.isConnected
      ? [this.#element, this.#offset]
      : [this.#section, this.#sectionOffset];
    if (!element?.isConnected) return this.drop();
    const moved = this.#below(element) - offset;
    if (Math.abs(moved) >= 1) this.view.scrollTop += moved;
    this.drop();
  }

  /** Takes what stands there now. */
  drop() {
    const { top } = this.view.getBoundingClientRect();
    this.#section = endingBelow(this.content.querySelectorAll(":scope > .slot"), top);
    this.#element = this.#section && innermost(this.#section, top);
    this.#sectionOffset = this.#section ? this.#below(this.#section) : 0;
    this.#offset = this.#element ? this.#below(this.#element) : 0;
  }

  #below(element) {
    return element.getBoundingClientRect().top - this.view.getBoundingClientRect().top;
  }
}

/** The first of these elements, which stand below one another, that ends below `top`. */
function endingBelow(elements, top) {
  let [from, to] = [0, elements.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (elements[middle].getBoundingClientRect().bottom > top) to = middle;
    else from = middle + 1;
  }
  return elements[from] ?? null;
}

/** The element inside that ends below `top` first, a few levels deep. */
function innermost(element, top, levels = 5) {
  for (let level = 0; level < levels; level += 1) {
    const inner = endingBelow(element.children, top);
    if (!inner) break;
    element = inner;
  }
  return element;
}
