/**
 * Rows that outlast the page: one kind of thing, of one user, in this browser, bounded in number and size.
 *
 * Each row has a key of its own, so that tabs don't overwrite each other's. When there are too many the oldest go; what
 * is too large, or finds no room, is not kept. A user who signs out leaves nothing behind.
 */

import { browserStorage } from "./browser-storage.js";

/** What somebody sent that long ago is not sent any more without being looked at. */
export const SENT_WITHIN_MS = 86_400_000;

/** When a user has signed out here: their other tabs keep nothing any more. */
const SIGNED_OUT = "chat.signed-out";

const KINDS = { drafts: "chat.draft", asks: "chat.ask", trials: "chat.trial", entries: "chat.entry" };

const prefixOf = (kind, owner) => `${KINDS[kind]}/${encodeURIComponent(owner)}/`;

/** Removes all that is kept of a user. */
export function forgetRows(owner) {
  for (const kind of Object.keys(KINDS)) {
    for (const key of browserStorage.keys(prefixOf(kind, owner))) browserStorage.delete(key);
  }
  browserStorage.set(SIGNED_OUT, `${owner} ${Date.now()}`);
}

export class KeptRows {
  #prefix;
  #bounds;
  #isClosed = false;

  /**
   * `owner` names the user; `bounds` are `{count, characters}` for all rows together. `onChange` gets the id and the
   * value (null: removed) of each row that another tab has changed.
   */
  constructor(kind, owner, bounds, onChange = () => {}) {
    this.#prefix = prefixOf(kind, owner);
    this.#bounds = bounds;
    addEventListener("storage", ({ key, newValue }) => {
      if (this.#isClosed) return;
      if (key === SIGNED_OUT && newValue?.startsWith(`${owner} `)) this.close();
      // The event may tell of a row that has been written again since: by the page before this one, and by this one.
      else if (key?.startsWith(this.#prefix)) {
        onChange(key.slice(this.#prefix.length), parsed(browserStorage.get(key))?.value ?? null);
      }
    });
  }

  /** `[id, value, milliseconds since it was kept]` of each, the oldest first. */
  all() {
    if (this.#isClosed) return [];
    const now = Date.now();
    return browserStorage
      .keys(this.#prefix)
      .map((key) => [key.slice(this.#prefix.length), parsed(browserStorage.get(key))])
      .filter(([, row]) => row)
      .sort(([, a], [, b]) => a.at - b.at)
      .map(([id, { value, at }]) => [id, value, now - at]);
  }

  /** What is too large leaves the row as it was. */
  set(id, value) {
    if (this.#isClosed) return;
    const key = this.#prefix + id;
    const text = JSON.stringify({ at: Date.now(), value });
    if (text.length > this.#bounds.characters) return;
    const others = browserStorage.keys(this.#prefix).filter((other) => other !== key);
    const used = others.reduce((sum, other) => sum + browserStorage.get(other).length, text.length);
    if (others.length >= this.#bounds.count || used > this.#bounds.characters) this.#makeRoom(key, text.length);
    while (!browserStorage.set(key, text) && this.#dropOldest(key));
  }

  delete(id) {
    browserStorage.delete(this.#prefix + id);
  }

  /** From here on nothing is kept or told. */
  close() {
    this.#isClosed = true;
  }

  #makeRoom(key, needed) {
    const others = this.#oldest(key).map((other) => [other, browserStorage.get(other).length]);
    let used = others.reduce((sum, [, size]) => sum + size, needed);
    while (others.length >= this.#bounds.count || used > this.#bounds.characters) {
      const [other, size] = others.shift();
      browserStorage.delete(other);
      used -= size;
    }
  }

  #dropOldest(key) {
    const [oldest] = this.#oldest(key);
    if (oldest) browserStorage.delete(oldest);
    return Boolean(oldest);
  }

  /** The keys of the other rows. */
  #oldest(key) {
    return this.all()
      .map(([id]) => this.#prefix + id)
      .filter((other) => other !== key);
  }
}

/** A row, or null for none and for what this page did not write. */
function parsed(text) {
  try {
    const row = JSON.parse(text);
    return typeof row?.at === "number" && row.value && typeof row.value === "object" ? row : null;
  } catch {
    return null;
  }
}
