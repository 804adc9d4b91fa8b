/**
 * What the user says of the answers of the open conversation.
 *
 * Owns `state.feedback`: `{sessionId, byRank}` with `{rating, comment}` by the rank of the answer. It is read when a
 * conversation is opened.
 */

export const noFeedback = { sessionId: null, byRank: {} };

export class Feedback {
  /** The session that was read for last. */
  #read = null;

  constructor(api, store) {
    this.api = api;
    this.store = store;
    store.subscribe(({ conversation }) => this.#follow(conversation));
  }

  /** Says this of the answer at `rank`; what was said before gives way. Raises ApiError. */
  async give(rank, rating, comment) {
    const { sessionId } = this.store.state.conversation;
    const given = await this.api.giveFeedback(sessionId, rank, { rating, comment });
    this.#set(sessionId, { ...this.#of(sessionId), [rank]: given });
  }

  /** Raises ApiError. */
  async withdraw(rank) {
    const { sessionId } = this.store.state.conversation;
    await this.api.withdrawFeedback(sessionId, rank);
    const { [rank]: _, ...others } = this.#of(sessionId);
    this.#set(sessionId, others);
  }

  async #follow({ sessionId, loading, transcript }) {
    if (!sessionId || loading || sessionId === this.#read || !transcript.exchanges.length) return;
    this.#read = sessionId;
    try {
      const { feedback } = await this.api.feedback(sessionId);
      const read = Object.fromEntries(feedback.map((each) => [each.rank, each]));
      // What was said meanwhile counts.
      this.#set(sessionId, { ...read, ...this.#of(sessionId) });
    } catch {
      // The conversation does not need it; it is read anew when it is opened again.
    }
  }

  #of(sessionId) {
    const { feedback } = this.store.state;
    return feedback.sessionId === sessionId ? feedback.byRank : {};
  }

  #set(sessionId, byRank) {
    if (this.store.state.conversation.sessionId === sessionId) this.store.set({ feedback: { sessionId, byRank } });
  }
}
