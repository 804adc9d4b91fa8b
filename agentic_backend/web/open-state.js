/**
 * What is known of the conversation that is open: a view of `state.conversation` for all who keep it in step.
 *
 * `opening` is another number for each conversation that is opened: who has waited for an answer compares it.
 */

import { newTranscript, withExchange } from "./client/transcript.js";

/** `isQuery`: what is shown was asked without a session, and is kept nowhere. */
export const nothingOpen = {
  opening: 0,
  sessionId: null,
  session: null,
  isQuery: false,
  transcript: newTranscript(),
  loading: false,
  loadError: null,
  refusal: null,
  /** The key of the exchange whose question is being edited. */
  editing: null,
  /** How the user has come to this variant: `{rank, way}`. */
  turned: null,
  /** Whether a branch is about to be made. */
  forking: false,
  /** The message that a jump leads to: `{rank}`, a new object for each jump. */
  marked: null,
};

const MOST_LEFT = 100;

export class OpenState {
  opening = 0;
  /** The ids of the sessions that were open, the latest last. */
  #left = new Set();

  constructor(store) {
    this.store = store;
  }

  get now() {
    return this.store.state.conversation;
  }

  set(patch) {
    this.store.set({ conversation: { ...this.now, ...patch } });
  }

  /** Another conversation is about to be opened. */
  leave() {
    this.opening += 1;
    const { sessionId } = this.now;
    if (!sessionId) return;
    this.#left.delete(sessionId);
    this.#left.add(sessionId);
    if (this.#left.size > MOST_LEFT) this.#left.delete(this.#left.values().next().value);
  }

  wasOpen(sessionId) {
    return this.#left.has(sessionId);
  }

  exchange(id) {
    return this.now.transcript.exchanges.find((exchange) => exchange.id === id) ?? null;
  }

  changeExchange(id, change) {
    this.set({ transcript: withExchange(this.now.transcript, id, change) });
  }
}
