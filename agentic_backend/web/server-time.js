/**
 * The time by the server's clock, by which it says when something was, or will be over: a browser's may be wrong by days.
 */

/** The `Date` of an answer is in whole seconds, and has been on its way. */
const EXACT_MS = 2_000;

let ahead = 0;

/** In milliseconds. */
export const serverNow = () => Date.now() + ahead;

/** `date` is what an answer of the server's says it is, or null. */
export function heardDate(date) {
  const at = Date.parse(date);
  if (Math.abs(at - serverNow()) > EXACT_MS) ahead = at - Date.now();
}
