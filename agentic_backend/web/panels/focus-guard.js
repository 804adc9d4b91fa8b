/**
 * Gives the focus back to where somebody types if a panel takes it by itself: what is typed then is not the panel's.
 *
 * A person comes into a panel with a pointer or by Tab; others, as with a screen reader, don't type just before.
 */

const TYPED_MS = 3_000;
const ENTERED_MS = 1_000;
const LATE_MS = 100;

let typedAt = -Infinity;
let typedIn = null;
let enteredAt = -Infinity;
const frames = new Set();
let waiting = null;

/** Someone comes into a panel, or moves out of one. */
export function entering() {
  enteredAt = performance.now();
}

/** Someone goes on in a panel, by a link of the page: they don't type any more. */
export function typingEnds() {
  typedAt = -Infinity;
}

/** Guards against the panel in this frame; returns what ends that. */
export function guardedFrom(frame) {
  if (!frames.size) {
    addEventListener("keydown", keyed, true);
    addEventListener("blur", lookSoon);
  }
  frames.add(frame);
  return () => {
    frames.delete(frame);
    if (frames.size) return;
    removeEventListener("keydown", keyed, true);
    removeEventListener("blur", lookSoon);
  };
}

function keyed({ key, target, isTrusted }) {
  if (!isTrusted) return;
  if (key === "Tab") entering();
  else if (target.matches("input, textarea, [contenteditable]")) {
    typedAt = performance.now();
    typedIn = target;
  }
}

/** The window has lost the focus, and the document has not heard of it yet. */
const lookSoon = () => setTimeout(look);

/** A panel may have the focus. */
function look() {
  const frame = document.activeElement;
  if (!frames.has(frame) || !isTyping() || performance.now() - enteredAt < ENTERED_MS) return;
  // With a pointer over it, its word of a click may still be on its way.
  clearTimeout(waiting);
  if (frame.matches(":hover")) waiting = setTimeout(() => document.activeElement === frame && giveBack(frame), LATE_MS);
  else giveBack(frame);
}

function giveBack(frame) {
  if (performance.now() - enteredAt < ENTERED_MS) return;
  // So that it takes no second one.
  frame.inert = true;
  typedIn.focus({ preventScroll: true });
  const release = () => (isTyping() ? setTimeout(release, TYPED_MS) : (frame.inert = false));
  setTimeout(release, TYPED_MS);
}

const isTyping = () => performance.now() - typedAt < TYPED_MS;
