/** Where the focus goes by itself: to what waits for a person, unless that person is busy elsewhere. */

import { useEffect } from "./html.js";

const NEXT = "[data-testid=approval][data-state=open]";

/** Moves the focus to the element that `reference` holds when it appears. */
export function useFocusWhenShown(reference, isShown) {
  useEffect(() => {
    if (isShown && isFree()) reference.current.focus({ preventScroll: true });
  }, [isShown]);
}

/** To the next card that waits, or to where one writes. */
export function passFocusOn() {
  (document.querySelector(NEXT) ?? document.getElementById("composer"))?.focus();
}

export function goToNextApproval() {
  document.querySelector(NEXT)?.focus();
}

/** Nobody types: the focus is nowhere, or where a message was sent from and nothing is written yet. */
function isFree() {
  const active = document.activeElement;
  if (!active || active === document.body) return true;
  return active.closest(".composer") !== null && !document.getElementById("composer").value;
}
