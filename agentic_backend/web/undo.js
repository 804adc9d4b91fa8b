/**
 * Offers to undo what was just done, for a while.
 *
 * Owns `state.undo`: `{text, canUndo}`, or null. One thing at a time: another offer settles the one before. What can't
 * be taken back, such as a deletion, happens only when the time is over, and at once when the page is left.
 */

import { errorText } from "./error-words.js";

const OFFERED_MS = 8_000;

export class Undo {
  #offer = null;
  #timer = null;

  constructor(store) {
    this.store = store;
    addEventListener("pagehide", () => this.#settle({ keepalive: true }));
  }

  /**
   * `undo` takes back what was done; `commit`, if there is one, does it for good. Both may fail with an ApiError.
   * Returns what says another text while this is offered.
   */
  offer({ text, undo, commit }) {
    this.#settle();
    const offer = { undo, commit };
    const say = (words) => this.#offer === offer && this.store.set({ undo: { text: words, canUndo: true } });
    this.#offer = offer;
    say(text);
    this.release();
    return say;
  }

  /** Somebody is about to decide: the time stands still until `release`. */
  hold() {
    clearTimeout(this.#timer);
  }

  release() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#settle(), OFFERED_MS);
  }

  async take() {
    const offer = this.#offer;
    this.#close();
    await this.#tried(offer?.undo);
  }

  /** It is not taken back: what it waited for happens now, also if the page is left meanwhile. */
  dismiss() {
    this.#settle({ keepalive: true });
  }

  /** Tells that something failed, for as long. */
  tell(error) {
    this.#settle();
    this.store.set({ undo: { text: errorText(error), canUndo: false } });
    this.release();
  }

  async #settle(options) {
    const offer = this.#offer;
    this.#close();
    await this.#tried(offer?.commit, options);
  }

  #close() {
    clearTimeout(this.#timer);
    this.#offer = null;
    if (this.store.state.undo) this.store.set({ undo: null });
  }

  async #tried(step, options) {
    try {
      await step?.(options);
    } catch (error) {
      this.tell(error);
    }
  }
}
