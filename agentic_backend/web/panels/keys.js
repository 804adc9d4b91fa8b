/** The page's keys in panels. */

import { isComposing } from "../composing.js";
import { shortcutOf } from "../shortcuts.js";

/** A key that the panel in this frame has left alone does what it does in the page. */
export function pass(pressed, frame) {
  const { key, ctrlKey, metaKey, altKey, shiftKey, isTyping } = pressed;
  if (isComposing(pressed) || (isTyping && key !== "Escape")) return;
  const event = new KeyboardEvent("keydown", { key, ctrlKey, metaKey, altKey, shiftKey, bubbles: true, cancelable: true });
  Object.defineProperty(event, "target", { value: frame });
  if (key === "Escape" || shortcutOf(event)) frame.dispatchEvent(event);
}
