/**
 * This tab among those of the browser: its id outlasts a reload, and it knows which others are gone.
 *
 * Every tab holds a lock in its name while it lives. A browser that gives no locks (without a secure context there are
 * none, nor where its user blocks what pages keep) tells of no tab that it is gone. While somebody can see it, it holds
 * another, which all such tabs share.
 */

import { tabStorage } from "./browser-storage.js";
import { randomId } from "./client/random-id.js";

const KEY = "chat.tab";
const LOCK = "chat.tab/";
const SEEN = "chat.seen";
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
  const alive = await heldLocks();
  return (id) => alive !== null && !alive.has(LOCK + id);
}

/** Resolves to whether somebody can see a tab of the page; of others only those that call `showWhenSeen`. */
export const isAnySeen = async () => !document.hidden || ((await heldLocks())?.has(SEEN) ?? false);

/** From now on other tabs know while somebody can see this one. */
export function showWhenSeen() {
  let release = () => {};
  const look = () => {
    release();
    const held = () => !document.hidden && new Promise((resolve) => (release = resolve));
    if (!document.hidden) navigator.locks?.request(SEEN, { mode: "shared" }, held).catch(() => {});
  };
  document.addEventListener("visibilitychange", look);
  look();
}

/** Resolves to the names of the locks that the browser's tabs hold, or null if it doesn't tell. */
async function heldLocks() {
  const { held } = (await navigator.locks?.query().catch(() => null)) ?? {};
  return held ? new Set(held.map(({ name }) => name)) : null;
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
