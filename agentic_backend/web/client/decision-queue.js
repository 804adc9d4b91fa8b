/**
 * A person's decisions on their way to the server: one `human_resume` after the other.
 *
 * A refusal names no decision, so that the next frame is sent only when it is known what became of the one before.
 */

/** @import { HumanResume } from "@agentic-backend/client/protocol" */

import { RESTARTING } from "./asks.js";

/**
 * @typedef {object} SentDecisions
 * @property {HumanResume} frame
 * @property {readonly string[]} keys  those of the requests that it decides on
 */

/** @template {SentDecisions} T */
export class DecisionQueue {
  /** Of which the first is on its way. @type {T[]} */
  #queue = [];
  #send;

  /** @param {(decisions: T) => unknown} send  gets their frame to the server, if it can be reached */
  constructor(send) {
    this.#send = send;
  }

  /** What is on its way. */
  get first() {
    return this.#queue[0];
  }

  /** @param {T} decisions */
  add(decisions) {
    this.#queue.push(decisions);
    if (this.#queue.length === 1) this.sendFirst();
  }

  /** Sends what nothing has answered yet, as on a new socket. */
  sendFirst() {
    if (this.#queue[0]) this.#send(this.#queue[0]);
  }

  /**
   * An event told what of an exchange is still open: what was decided and isn't has been taken. Returns that.
   *
   * @param {string} exchangeId
   * @param {ReadonlySet<string>} open
   */
  settle(exchangeId, open) {
    const taken = [];
    while (this.#queue[0]?.frame.exchange_id === exchangeId && !this.#queue[0].keys.some((key) => open.has(key))) {
      taken.push(...this.#queue.splice(0, 1));
      this.sendFirst();
    }
    return taken;
  }

  /**
   * The server has refused a frame. Returns what it was about; null if that is not here, or is sent again later. A
   * refusal of what the server could not read names no exchange.
   *
   * @param {{ exchange_id?: string | null, code: string }} refusal
   */
  refused({ exchange_id: exchangeId, code }) {
    if (code === RESTARTING || (exchangeId && this.#queue[0]?.frame.exchange_id !== exchangeId)) return null;
    const [first] = this.#queue.splice(0, 1);
    this.sendFirst();
    return first ?? null;
  }

  /** Nobody waits for answers any more. Returns what was not sent, or not answered yet. */
  clear() {
    return this.#queue.splice(0);
  }
}
