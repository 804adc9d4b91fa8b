/**
 * The place of an exchange: filled while it is near the view, else as high as what was there, or will be.
 *
 * What holds the focus or a selection stays filled, and so does everything while it is printed.
 */

import { Exchange } from "./exchange.js";
import { html, memo, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

/** So far beyond the view, in pixels, that who scrolls finds it filled. */
const MARGIN = 1_000;

/** Tells each place whether it is near `view`: what is in the view at once, the others one in a frame. */
export class Nearness {
  #told = new Map();
  #waiting = new Map();
  #observer;

  constructor(view) {
    this.#observer = new IntersectionObserver((entries) => this.#changed(entries), {
      root: view,
      rootMargin: `${MARGIN}px 0px`,
    });
  }

  #changed(entries) {
    const isIdle = this.#waiting.size === 0;
    for (const { target, isIntersecting, boundingClientRect: place, rootBounds } of entries) {
      const isInView = place.bottom > rootBounds.top + MARGIN && place.top < rootBounds.bottom - MARGIN;
      this.#waiting.delete(target);
      if (isInView) this.#told.get(target)?.(true);
      else this.#waiting.set(target, isIntersecting);
    }
    if (isIdle && this.#waiting.size > 0) this.#tellNext();
  }

  #tellNext() {
    requestAnimationFrame(() => {
      const [next] = this.#waiting;
      if (!next) return;
      const [target, isNear] = next;
      this.#waiting.delete(target);
      this.#told.get(target)?.(isNear);
      if (this.#waiting.size > 0) this.#tellNext();
    });
  }

  watch(element, tell) {
    this.#told.set(element, tell);
    this.#observer.observe(element);
    return () => {
      this.#told.delete(element);
      this.#waiting.delete(element);
      this.#observer.unobserve(element);
    };
  }
}

/** `heights` has the measured ones by key; `isPinned`: it is filled wherever it is. */
export const Slot = memo(({ nearness, heights, isPinned, ...shown }) => {
  const { exchange } = shown;
  const place = useRef(null);
  const [isNear, setNear] = useState(isPinned);
  const isHeld = useHeld(place, !isNear && !isPinned);
  const isPrinted = usePrinting();
  const isFilled = isNear || isPinned || isHeld || isPrinted;
  useEffect(() => nearness()?.watch(place.current, setNear), []);
  useLayoutEffect(() => {
    if (!isFilled) return undefined;
    const measured = new ResizeObserver(() => heights.set(exchange.key, place.current.offsetHeight));
    measured.observe(place.current);
    return () => measured.disconnect();
  }, [isFilled]);
  if (isFilled) return html`<div class="slot" ref=${place}><${Exchange} ...${shown} /></div>`;
  const height = heights.get(exchange.key) ?? estimate(exchange);
  return html`<div class="slot" ref=${place} style=${{ height: `${height}px` }} data-unfilled=${exchange.id} />`;
});

/** Whether it has the focus or a part of the selection, looked at while it `mayGo`. */
function useHeld(place, mayGo) {
  const [isHeld, setHeld] = useState(false);
  // While rendering: once it is empty, the focus is lost already.
  const holds = mayGo && holdsSomething(place.current);
  useEffect(() => {
    setHeld(holds);
    if (!holds) return undefined;
    const look = () => setHeld(holdsSomething(place.current));
    document.addEventListener("selectionchange", look);
    document.addEventListener("focusin", look);
    return () => {
      document.removeEventListener("selectionchange", look);
      document.removeEventListener("focusin", look);
    };
  }, [holds]);
  return isHeld || holds;
}

function holdsSomething(element) {
  if (!element) return false;
  if (element.contains(document.activeElement)) return true;
  const selection = document.getSelection();
  return selection.type === "Range" && selection.containsNode(element, true);
}

function usePrinting() {
  const [isPrinted, setPrinted] = useState(false);
  useEffect(() => {
    const [begun, ended] = [() => setPrinted(true), () => setPrinted(false)];
    addEventListener("beforeprint", begun);
    addEventListener("afterprint", ended);
    return () => {
      removeEventListener("beforeprint", begun);
      removeEventListener("afterprint", ended);
    };
  }, []);
  return isPrinted;
}

const [LINE_CHARACTERS, LINE, AROUND] = [85, 26, 150];

/** A guess at its height in pixels, from the length of what is said. */
function estimate({ messages }) {
  const lines = messages
    .filter(({ channel, role }) => channel === "final" || role === "user")
    .flatMap(({ parts }) => parts)
    .reduce((sum, { text = "" }) => sum + Math.ceil(text.length / LINE_CHARACTERS) + text.split("\n").length - 1, 0);
  return AROUND + lines * LINE;
}
