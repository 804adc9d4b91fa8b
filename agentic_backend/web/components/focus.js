/** Where the focus goes by itself: to what waits for a person, unless that person is busy elsewhere. */

import { useEffect, useLayoutEffect, useRef } from "./html.js";
import { reveal } from "./scrolled-view.js";

const NEXT = "[data-testid=approval][data-state=open]";

/** Moves the focus to the element that `reference` holds when it appears. */
export function useFocusWhenShown(reference, isShown) {
  useEffect(() => {
    if (!isShown || !isFree()) return;
    reference.current.focus({ preventScroll: true });
    reveal(reference.current, { byItself: true });
  }, [isShown]);
}

/**
 * Gives the focus back to the button that has opened a form, once that is closed. `opened` is the button's test id while
 * its form is open, else null; `container` holds the element in which it comes back.
 */
export function useFocusBack(container, opened) {
  const before = useRef(null);
  useLayoutEffect(() => {
    if (before.current && !opened) container.current?.querySelector(`[data-testid=${before.current}]`)?.focus();
    before.current = opened;
  }, [opened]);
}

/** To the next card that waits, or to where one writes. */
export function passFocusOn() {
  if (!goToNextApproval()) document.getElementById("composer")?.focus();
}

/** Whether a card waits, which has the focus now. */
export function goToNextApproval() {
  const next = document.querySelector(NEXT);
  next?.focus({ preventScroll: true });
  if (next) reveal(next);
  return Boolean(next);
}

/** Nobody types: the focus is nowhere, or where a message was sent from and nothing is written yet. */
function isFree() {
  const active = document.activeElement;
  if (!active || active === document.body) return true;
  return active.closest(".composer") !== null && !document.getElementById("composer").value;
}
