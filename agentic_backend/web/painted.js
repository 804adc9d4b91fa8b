/** Resolves once the page has painted for the first time: what can wait until then doesn't hold that up. */

// A page in the background doesn't paint, but it reads on.
const LATEST_MS = 500;

export const painted = new Promise((resolve) => {
  requestAnimationFrame(() => setTimeout(resolve));
  setTimeout(resolve, LATEST_MS);
});
