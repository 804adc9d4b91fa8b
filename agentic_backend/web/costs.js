/**
 * What the open conversation has cost, in all its variants, and by exchange.
 *
 * Owns `state.costs`: `{rootId, byExchange, total}`, where a cost is a list of `{amount, currency}`. Those of the open
 * session are read when it is opened and when an exchange of it has ended, those of its family when that is known and has
 * been used. What was read of a family counts until another is open, also of a variant that is gone: it was paid for.
 * Nothing is read any more once the server says that it has no prices.
 */

import { isOngoing } from "./client/transcript-exchange.js";
import { hasOwn } from "./variants.js";

export const noCosts = { rootId: null, byExchange: {}, total: [] };

export class Costs {
  #isPriced = true;
  #isReading = false;
  /** What the costs of each session are to be read for: its last use, or the last exchange of it that has ended. */
  #wanted = new Map();
  /** By session: what its costs were read for, and `{sums, truncated}`. */
  #read = new Map();
  #rootId = null;

  constructor(api, store) {
    this.api = api;
    this.store = store;
    store.subscribe(({ conversation, branches }) => this.#follow(conversation, branches));
  }

  #follow({ sessionId, transcript: { exchanges } }, { rootId, family }) {
    const ended = exchanges.findLast((exchange) => !isOngoing(exchange));
    if (!this.#isPriced || !ended || !family.some(({ id }) => id === sessionId)) return;
    if (rootId !== this.#rootId) this.#read = new Map();
    this.#rootId = rootId;
    const others = family.filter((session) => session.id !== sessionId && hasOwn(session));
    this.#wanted = new Map([[sessionId, ended.id], ...others.map(({ id, updated_at: at }) => [id, at])]);
    if (!this.#isReading) this.#readAll();
  }

  get #unread() {
    return [...this.#wanted].find(([id, wanted]) => this.#read.get(id)?.wanted !== wanted);
  }

  async #readAll() {
    this.#isReading = true;
    let rootId = null;
    for (let next = this.#unread; next; next = this.#unread) {
      rootId = this.#rootId;
      const [id, wanted] = next;
      // Where that fails, the next exchange's end asks again: the conversation does not need it.
      const read = await this.api.costs(id).catch(() => this.#read.get(id) ?? { sums: [] });
      if (read.priced === false) this.#isPriced = false;
      if (!this.#isPriced) return;
      if (rootId === this.#rootId) this.#read.set(id, { ...read, wanted });
    }
    this.#isReading = false;
    if (rootId) this.#show();
  }

  #show() {
    const read = [...this.#read.values()];
    const sums = read.flatMap((each) => each.sums);
    const byExchange = Object.fromEntries(sums.map(({ keys, costs }) => [keys.exchange_id, costs]));
    const total = read.some(({ truncated }) => truncated) ? [] : addedCosts(sums.flatMap(({ costs }) => costs));
    this.store.set({ costs: { rootId: this.#rootId, byExchange, total } });
  }
}

/** What calls of models have used in all sessions of a family, by model; see Api.usage. Raises ApiError. */
export async function usageOfFamily(api, sessions) {
  const byModel = new Map();
  let isPriced = false;
  for (const { id } of sessions) {
    const { sums, priced } = await api.usage({ sessionId: id });
    isPriced ||= priced;
    for (const sum of sums) byModel.set(sum.keys.model, added(byModel.get(sum.keys.model), sum));
  }
  return { sums: [...byModel.values()], priced: isPriced };
}

function added(one, other) {
  if (!one) return other;
  const numbers = ["calls", "estimated_calls", "input_tokens", "output_tokens"].map((name) => [name, one[name] + other[name]]);
  return { keys: one.keys, ...Object.fromEntries(numbers), costs: addedCosts([...one.costs, ...other.costs]) };
}

function addedCosts(costs) {
  const amounts = new Map();
  for (const { amount, currency } of costs) amounts.set(currency, (amounts.get(currency) ?? 0) + amount);
  return [...amounts].map(([currency, amount]) => ({ amount, currency }));
}
