/**
 * The user's decisions on what waits for them, and their way to the server: one `human_resume` after the other.
 *
 * A refusal names no decision, so that the next frame is sent only when it is known what became of the one before.
 */

import { decided, openApprovals, openKeys, requestKey, undecided } from "./client/approvals.js";
import { RESTARTING } from "./client/asks.js";

export class Decisions {
  /** `{frame, keys}`, of which the first is on its way. */
  #queue = [];

  constructor(state, send) {
    Object.assign(this, { state, send });
  }

  /** Shows and sends `made`, `[{request, decision}]`, of which all counts or nothing; a second click does nothing. */
  decide(exchange, made) {
    const known = this.state.exchange(exchange.id);
    const open = new Set(openApprovals(known).map(({ key }) => key));
    if (!made.every(({ request }) => open.has(requestKey(request)))) return;
    const frame = {
      type: "human_resume",
      session_id: this.state.now.sessionId,
      exchange_id: exchange.id,
      payload: payloadOf(made),
    };
    this.state.changeExchange(exchange.id, () => decided(known, made));
    this.#queue.push({ frame, keys: made.map(({ request }) => requestKey(request)) });
    if (this.#queue.length === 1) this.sendFirst();
  }

  /** Sends what nothing has answered yet, as on a new socket. */
  sendFirst() {
    if (this.#queue.length) this.send(this.#queue[0].frame);
  }

  /** An event told of the exchange: what was decided and is no longer open has been taken. */
  settle(exchange) {
    const open = openKeys(exchange);
    while (this.#queue[0]?.frame.exchange_id === exchange.id && !this.#queue[0].keys.some((key) => open.has(key))) {
      this.#queue.shift();
      this.sendFirst();
    }
  }

  /** The server has refused the first frame: its cards come back with these words. False if it is sent again later. */
  refused({ exchange_id: exchangeId, code, content }) {
    if (code === RESTARTING) return false;
    const [first] = this.#queue;
    if (first && first.frame.exchange_id === exchangeId) {
      this.#queue.shift();
      this.state.changeExchange(exchangeId, (known) => undecided(known, first.keys, content));
      this.sendFirst();
    }
    return true;
  }

  /** The conversation is left: what has not been sent is sent now, and nobody looks at the answers. */
  leave() {
    for (const { frame } of this.#queue.slice(1)) this.send(frame);
    this.#queue = [];
  }
}

/** `args_sha256` is that of the arguments that were shown, as the server named it. */
function payloadOf(made) {
  const calls = made.filter(({ request }) => request.call_id);
  const questions = made.filter(({ request }) => !request.call_id);
  return {
    decisions: calls.map(({ request: { call_id, args_sha256 }, decision }) => ({ call_id, args_sha256, ...decision })),
    answers: Object.fromEntries(questions.map(({ request, decision }) => [request.interrupt_id, decision.answer])),
  };
}
