/**
 * What its reader has unfolded or folded, by the key of the part of the transcript: it stays so while that part is out
 * of the page.
 */

import { useState } from "./components/html.js";

const MOST = 1_000;
const kept = new Map();

/** `[open, set]`, as `useState(false)`; null while its reader has not decided. */
export function useFold(key) {
  const [open, setOpen] = useState(kept.get(key) ?? null);
  const set = (wanted) => {
    kept.delete(key);
    kept.set(key, wanted);
    if (kept.size > MOST) kept.delete(kept.keys().next().value);
    setOpen(wanted);
  };
  return [open, set];
}
