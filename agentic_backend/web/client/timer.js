/** Timers of any length. */

/** A longer timer would end at once. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Calls after so many seconds; null, and never, if they are without end.
 *
 * @param {number} seconds
 * @param {() => void} call
 */
export const timerOf = (seconds, call) =>
  seconds === Infinity ? null : setTimeout(call, Math.min(seconds * 1_000, LONGEST_MS));
