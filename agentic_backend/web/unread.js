/**
 * Which sessions have ended an exchange while nobody looked at them.
 *
 * Owns `state.unread`, a set of session ids. It is kept in localStorage by user, so that a reload and other windows
 * know it, together with what was active when this browser last heard of it: what ends without a window is unread too.
 */

import { browserStorage } from "./browser-storage.js";

const MOST = 200;

export class Unread {
  #key;
  #active = new Set();
  #isForgotten = false;

  /** `owner` names the user. */
  constructor(store, owner) {
    this.store = store;
    this.#key = `chat.unread/${encodeURIComponent(owner)}`;
    this.#load();
    addEventListener("storage", ({ key }) => key === this.#key && this.#load());
    document.addEventListener("visibilitychange", () => this.#look());
    store.subscribe(() => this.#look());
  }

  /** The user signs out: nothing of theirs stays, whatever is still told. */
  forget() {
    browserStorage.delete(this.#key);
    this.#isForgotten = true;
  }

  /** The server has told of this session, with the status of what is active or has just ended in it. */
  told({ id, active_exchange_id: active }, status) {
    const hasEnded = !active && (Boolean(status) || this.#active.has(id));
    if (active) this.#active.add(id);
    else this.#active.delete(id);
    this.#keep(hasEnded && !this.#isLookedAt(id) ? including(this.store.state.unread, id) : this.store.state.unread);
  }

  /** These sessions are listed as they are: what was active may have ended meanwhile. */
  listed(sessions) {
    for (const session of sessions) {
      if (session.active_exchange_id || this.#active.has(session.id)) this.told(session);
    }
  }

  seen(id) {
    if (!this.store.state.unread.has(id)) return;
    this.#keep(new Set([...this.store.state.unread].filter((other) => other !== id)));
  }

  #isLookedAt(id) {
    return document.visibilityState === "visible" && this.store.state.conversation.sessionId === id;
  }

  /** Whoever opens a session, or comes back to it, sees what it has ended with. */
  #look() {
    const { sessionId } = this.store.state.conversation;
    if (sessionId && this.#isLookedAt(sessionId)) this.seen(sessionId);
  }

  #load() {
    let kept = {};
    try {
      kept = JSON.parse(browserStorage.get(this.#key)) ?? {};
    } catch {
      // Not what this page has written.
    }
    this.#active = new Set(textsIn(kept.active));
    this.store.set({ unread: new Set(textsIn(kept.unread)) });
    this.#look();
  }

  #keep(unread) {
    const kept = JSON.stringify({ active: [...this.#active].slice(-MOST), unread: [...unread].slice(-MOST) });
    if (unread !== this.store.state.unread) this.store.set({ unread });
    if (this.#isForgotten || browserStorage.get(this.#key) === kept) return;
    browserStorage.set(this.#key, kept);
  }
}

const including = (ids, id) => (ids.has(id) ? ids : new Set([...ids, id]));

const textsIn = (list) => (Array.isArray(list) ? list.filter((id) => typeof id === "string") : []);
