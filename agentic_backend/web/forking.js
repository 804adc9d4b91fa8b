/** Branches of the open conversation: begins one where something is asked anew, and gives up one that nobody needs. */

import { ApiError } from "./api.js";
import { besideEmpty } from "./variants.js";

export class Forking {
  constructor({ state, store, api }) {
    Object.assign(this, { state, store, api });
  }

  /** The new branch of the open session that begins at `rank`; null, and the page says why, if there can be none. */
  async begin(rank) {
    const { sessionId, forking } = this.state.now;
    const { opening } = this.state;
    if (forking) return null;
    this.state.set({ forking: true, refusal: null });
    try {
      const session = await this.api.fork(sessionId, rank);
      if (opening === this.state.opening) return session;
      // The user has gone elsewhere: nobody has asked for a branch without a question.
      this.#remove(session);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const refusal = { code: error.code, content: error.content };
      if (opening === this.state.opening) this.state.set({ forking: false, refusal });
    }
    return null;
  }

  /** Deletes the open branch if nothing was asked in it: the id of the session to go on with instead, or null. */
  giveUp() {
    const { session } = this.state.now;
    const other = besideEmpty(this.store.state.branches.family, session);
    if (!other) return null;
    this.#remove(session);
    return other.id;
  }

  /** Where that fails, an empty branch stays, which no variant shows. */
  #remove({ id }) {
    this.api.remove(id).catch(() => {});
  }
}
