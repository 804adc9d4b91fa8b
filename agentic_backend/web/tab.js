/**
 * This tab among those of the browser: its id outlasts a reload, and it knows which others are gone.
 *
 * Every tab holds a lock in its name while it lives. A browser that gives no locks (without a secure context there are
 * none, nor where its user blocks what pages keep) tells of no tab that it is gone.
 */

import { tabStorage } from "./browser-storage.js";
import { randomId } from "./client/random-id.js";

const KEY = "chat.tab";
const LOCK = "chat.tab/";
/** A page that is loaded again may get the lock of the one before it a little later. */
const PATIENCE_MS = 1_000;

/** Resolves to the tab's id. */
export const tabId = () => (identified ??= identify());

let identified = null;

/** A copy of another tab gets an id of its own. */
async function identify() {
  const before = tabStorage.get(KEY);
  const id = before && (await isHeld(before)) ? before : randomId();
  if (id !== before) await isHeld(id);
  tabStorage.set(KEY, id);
  return id;
}

/** Resolves to a function that says of a tab's id whether that tab is gone. */
export async function goneTabs() {
  const { held } = (await navigator.locks?.query().catch(() => null)) ?? {};
  if (!held) return () => false;
  const alive = new Set(held.map(({ name }) => name));
  return (id) => !alive.has(LOCK + id);
}

/** Resolves to true when this page holds the lock, until it goes. */
function isHeld(id) {
  if (!navigator.locks) return Promise.resolve(true);
  return new Promise((resolve) => {
    const held = () => {
      resolve(true);
      return new Promise(() => {});
    };
    const signal = AbortSignal.timeout(PATIENCE_MS);
    navigator.locks.request(LOCK + id, { signal }, held).catch(() => resolve(false));
  });
}
