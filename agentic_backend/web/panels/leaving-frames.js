/** Frames that the page has left, and that may end what they do, out of sight. */

/**
 * Moves `frame` out of what is taken away, and returns whether that is possible: a browser without `moveBefore` would
 * load it again.
 */
export function keptForNow(frame) {
  const { body } = document;
  if (!body.moveBefore || !frame.isConnected) return false;
  frame.inert = true;
  frame.removeAttribute("title");
  frame.className = "leaving-frame";
  body.moveBefore(frame, null);
  return true;
}
