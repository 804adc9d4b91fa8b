/**
 * What the open conversation has cost, in all and by exchange.
 *
 * Owns `state.costs`: `{sessionId, byExchange, total}`, where a cost is a list of `{amount, currency}`. It is read when a
 * conversation is opened and when an exchange of it has ended, and no more once the server says that it has no prices.
 */

import { isOngoing } from "./client/transcript-exchange.js";

export const noCosts = { sessionId: null, byExchange: {}, total: [] };

export class Costs {
  #isPriced = true;
  /** What the costs were read for last: the session, and the last of its exchanges that had ended. */
  #read = null;

  constructor(api, store) {
    this.api = api;
    this.store = store;
    store.subscribe(({ conversation }) => this.#follow(conversation));
  }

  #follow({ sessionId, transcript: { exchanges } }) {
    const ended = exchanges.findLast((exchange) => !isOngoing(exchange));
    const wanted = `${sessionId} ${ended?.id}`;
    if (!this.#isPriced || !sessionId || !ended || wanted === this.#read) return;
    this.#read = wanted;
    this.#refresh(sessionId, wanted);
  }

  async #refresh(sessionId, wanted) {
    try {
      const { priced, sums, truncated } = await this.api.costs(sessionId);
      this.#isPriced = priced;
      if (!priced || wanted !== this.#read) return;
      const byExchange = Object.fromEntries(sums.map(({ keys, costs }) => [keys.exchange_id, costs]));
      const total = truncated ? [] : added(sums.flatMap(({ costs }) => costs));
      this.store.set({ costs: { sessionId, byExchange, total } });
    } catch {
      // The conversation does not need it; the next exchange's end asks again.
    }
  }
}

function added(costs) {
  const amounts = new Map();
  for (const { amount, currency } of costs) amounts.set(currency, (amounts.get(currency) ?? 0) + amount);
  return [...amounts].map(([currency, amount]) => ({ amount, currency }));
}
