/**
 * The user's decisions on what waits for them, shown at once and put back where the server refuses them.
 */

import { decided, openKeys, payloadOf, requestKey, sentKeys, undecided } from "./client/approvals.js";
import { RESTARTING } from "./client/asks.js";
import { DecisionQueue } from "./client/decision-queue.js";
import { isExact } from "./client/exact-json.js";

/** How a call may be decided here: only to reject it, where the browser can't show its numbers as they are. */
export const allowedOf = ({ args, allowed }) =>
  isExact(args) ? allowed : allowed.filter((action) => action === "reject");

export class Decisions {
  #queue;

  constructor(state, send) {
    Object.assign(this, { state, send });
    this.#queue = new DecisionQueue(({ frame }) => send(frame));
  }

  /** Shows and sends `made`, `[{request, decision}]`, of which all counts or nothing; a second click does nothing. */
  decide(exchange, made) {
    const known = this.state.exchange(exchange.id);
    // As a replay begins, less is known than what the card shows: it is open still, for all that anybody knows.
    const open = new Set([...openKeys(known), ...openKeys(exchange)]);
    const isOpen = (key) => open.has(key) && !known.decisions[key];
    if (!made.every(({ request }) => isOpen(requestKey(request)))) return;
    const frame = {
      type: "human_resume",
      session_id: this.state.now.sessionId,
      exchange_id: exchange.id,
      payload: payloadOf(made),
    };
    this.state.changeExchange(exchange.id, () => decided(known, made));
    this.#queue.add({ frame, keys: made.map(({ request }) => requestKey(request)) });
  }

  /** The frame that is on its way. */
  get first() {
    return this.#queue.first?.frame;
  }

  /** Sends what nothing has answered yet, as on a new socket. */
  sendFirst() {
    this.#queue.sendFirst();
  }

  /** An event told of the exchange: what was decided and is no longer open has been taken. */
  settle(exchange) {
    this.#queue.settle(exchange.id, openKeys(exchange));
  }

  /** The server has refused a frame: its cards come back with these words. False if it is sent again later. */
  refused(error) {
    if (error.code === RESTARTING) return false;
    const { exchange_id: exchangeId, content } = error;
    const decisions = this.#queue.refused(error);
    // A replay may have taken them for settled.
    const keys = (known) => decisions?.keys ?? sentKeys(known);
    if (exchangeId) this.state.changeExchange(exchangeId, (known) => undecided(known, keys(known), content));
    return true;
  }

  /** The conversation is left: what has not been sent is sent now, and nobody looks at the answers. */
  leave() {
    for (const { frame } of this.#queue.clear().slice(1)) this.send(frame);
  }
}
