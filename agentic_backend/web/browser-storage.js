/**
 * What this browser keeps of the page: texts by key, for all its tabs (`browserStorage`) or for this one (`tabStorage`).
 *
 * A browser may refuse, because its user blocks what pages keep, or because it is full. What it doesn't take is known
 * until the page is left, so nothing here raises.
 */

class BrowserStorage {
  #area;
  /** What the browser did not take, by key. */
  #refused = new Map();

  /** `area` returns the browser's Storage; where that is blocked, asking for it raises already. */
  constructor(area) {
    this.#area = area;
  }

  /** The text, or null. */
  get(key) {
    return this.#refused.get(key) ?? this.#tried((area) => area.getItem(key)) ?? null;
  }

  /** Whether the browser has taken it. */
  set(key, text) {
    const isTaken = this.#tried((area) => {
      area.setItem(key, text);
      return true;
    });
    if (isTaken) this.#refused.delete(key);
    else this.#refused.set(key, text);
    return Boolean(isTaken);
  }

  delete(key) {
    this.#refused.delete(key);
    this.#tried((area) => area.removeItem(key));
  }

  /** The keys that begin with `prefix`. */
  keys(prefix) {
    const keys = new Set([...(this.#tried(Object.keys) ?? []), ...this.#refused.keys()]);
    return [...keys].filter((key) => key.startsWith(prefix));
  }

  #tried(step) {
    try {
      return step(this.#area());
    } catch {
      return undefined;
    }
  }
}

export const browserStorage = new BrowserStorage(() => localStorage);
export const tabStorage = new BrowserStorage(() => sessionStorage);
