/**
 * The family of the open conversation: what it was forked from, and what was forked from that.
 *
 * Owns `state.branches`: `{rootId, family, asked}`, the oldest session first. Without it a conversation is shown alone.
 * `asked` is what is asked where branches begin, by the name that `questionAt` gives it.
 */

import { ApiError } from "./api.js";
import { attachedTo } from "./attached.js";
import { familyOf } from "./sessions.js";
import { textOf } from "./timeline.js";
import { hasOwn, questionAt } from "./variants.js";

export const noBranches = { rootId: null, family: [], asked: {} };

export class Branches {
  /** By root id: the session that was open last, and when that family had been used last then. */
  #open = new Map();
  #isReading = false;

  constructor(api, store) {
    Object.assign(this, { api, store });
  }

  /** A new session is open now, which has no branches yet. */
  begin(session) {
    this.#enter(session, noBranches.family);
  }

  /** The session is open now. */
  async show(session) {
    const rootId = familyOf(session);
    const { family } = this.#now.rootId === rootId ? this.#now : noBranches;
    this.#enter(session, family);
    if (family.some(({ id }) => id === session.id)) return;
    try {
      const { branches } = await this.api.branches(session.id);
      if (this.#now.rootId !== rootId) return;
      this.#set({ family: merged(branches, this.#now.family) });
      this.#open.set(rootId, { id: session.id, usedAt: this.#usedAt });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  /** An event tells of a session, which may be a new branch, or that one is gone. */
  received({ type, session, session_id: sessionId }) {
    if (session) this.#learn(session);
    else if (type === "session_deleted") {
      this.#set({ family: this.#now.family.filter(({ id }) => id !== sessionId) });
    }
  }

  /** Of a family of which `listed` is the last used session: the one to open, which is what was open last. */
  lastOpen(listed) {
    const last = this.#open.get(familyOf(listed));
    return last && last.usedAt >= listed.updated_at ? last.id : listed.id;
  }

  #enter(session, family) {
    const rootId = familyOf(session);
    const { asked } = this.#now.rootId === rootId ? this.#now : noBranches;
    this.#set({ rootId, family: merged(family, [session]), asked });
    this.#open.set(rootId, { id: session.id, usedAt: this.#usedAt });
  }

  #learn(session) {
    const { rootId, family } = this.#now;
    if (rootId === familyOf(session)) this.#set({ family: merged(family, [session]) });
  }

  #set(change) {
    this.store.set({ branches: { ...this.#now, ...change } });
    if (!this.#isReading) this.#readQuestions();
  }

  /** What is asked where branches begin: those that ask the same are variants of the answer. */
  async #readQuestions() {
    this.#isReading = true;
    for (let next = this.#unread; next; next = this.#unread) {
      const { rootId } = this.#now;
      const [id, rank] = next;
      // One that can't be read is taken for another question.
      const question = await this.#read(id, rank).catch(() => id);
      if (this.#now.rootId !== rootId) continue;
      const asked = { ...this.#now.asked, [questionAt(id, rank)]: question };
      this.store.set({ branches: { ...this.#now, asked } });
    }
    this.#isReading = false;
  }

  get #unread() {
    const { family, asked } = this.#now;
    return family
      .filter((session) => session.parent && hasOwn(session))
      .flatMap(({ id, parent: { session_id: parentId, rank } }) => [
        [parentId, rank],
        [id, rank],
      ])
      .find(([id, rank]) => asked[questionAt(id, rank)] === undefined);
  }

  async #read(id, rank) {
    const { messages } = await this.api.messages(id, { afterRank: rank - 1, limit: 1 });
    const [{ parts }] = messages;
    return JSON.stringify([textOf(parts), attachedTo(parts).map((file) => file.id)]);
  }

  get #now() {
    return this.store.state.branches;
  }

  get #usedAt() {
    return this.#now.family.reduce((last, { updated_at: at }) => (at > last ? at : last), "");
  }
}

/** The `family`, with what is newer of `news`. */
function merged(family, news) {
  const byId = new Map(family.map((session) => [session.id, session]));
  for (const session of news) {
    const known = byId.get(session.id);
    if (!known || session.updated_at >= known.updated_at) byId.set(session.id, session);
  }
  return [...byId.values()];
}
