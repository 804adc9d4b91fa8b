/**
 * Work in steps: each takes a few milliseconds, when the browser is idle, so that the page stays free for its reader. What
 * is printed is done before.
 */

const STEP_MS = 12;
const LATEST_MS = 100;

const schedule = window.requestIdleCallback
  ? (work) => requestIdleCallback(work, { timeout: LATEST_MS })
  : (work) => setTimeout(work, 16);

/** What is not done yet. */
const undone = new Set();
let isPrinting = false;

addEventListener("beforeprint", () => {
  isPrinting = true;
  for (const work of undone) work();
});
addEventListener("afterprint", () => (isPrinting = false));

/** Runs the generator `steps`, which yields where it may be interrupted, while `element` is in the page. Returns what ends it. */
export function inSteps(element, steps) {
  const work = () => {
    const end = performance.now() + STEP_MS;
    while (undone.has(work)) {
      if (!element.isConnected || steps.next().done) undone.delete(work);
      else if (!isPrinting && performance.now() >= end) return schedule(work);
    }
  };
  undone.add(work);
  work();
  return () => undone.delete(work);
}
