/**
 * Frames whose senders wait until the server has taken them, for no longer than patience.
 *
 * Frames are answered in their order: a frame is taken when a `ping` after it is answered, and no refusal has come before
 * that. Where a socket is lost first, the frame is sent again on the next one.
 */

/** @import { FrameRefused, HumanResume, Stop } from "@agentic-backend/client/protocol" */

import { RESTARTING } from "./asks.js";
import { Disconnected, Refused } from "./errors.js";
import { timerOf } from "./timer.js";

/** What refuses a frame together with its socket: it is sent again on the next one. */
const AGAIN_ELSEWHERE = new Set([RESTARTING, "unauthenticated", "token_expired"]);

/** @typedef {{ frame: HumanResume | Stop, timesSent: number, settle: (error?: Error) => void }} Request */

export class Requests {
  /** Those that the server has not taken, in order. @type {Set<Request>} */
  #waiting = new Set();
  /** Those of this socket that nothing has answered, in order. @type {Request[]} */
  #sent = [];
  #send;
  #patience;
  #onLate;

  /**
   * @param {(frame: HumanResume | Stop, answered: () => void) => boolean} send  see `Connection.request`
   * @param {number} patience  how many seconds the server may take
   * @param {() => void} onLate  hears that it has taken longer
   */
  constructor(send, patience, onLate) {
    this.#send = send;
    this.#patience = patience;
    this.#onLate = onLate;
  }

  /**
   * Resolves when the server has taken the frame; rejects with Refused or Disconnected.
   *
   * @param {HumanResume | Stop} frame
   * @returns {Promise<void>}
   */
  add(frame) {
    return new Promise((taken, failed) => {
      const timer = timerOf(this.#patience, () => {
        request.settle(new Disconnected("unreachable", null, "The server did not answer in time."));
        this.#onLate();
      });
      /** @type {Request} */
      const request = {
        frame,
        timesSent: 0,
        settle: (error) => {
          clearTimeout(timer ?? undefined);
          this.#waiting.delete(request);
          if (error) failed(error);
          else taken();
        },
      };
      this.#waiting.add(request);
      this.#sendOne(request);
    });
  }

  /** Sends all, on a new socket. */
  sendAll() {
    this.#sent = [];
    for (const request of this.#waiting) this.#sendOne(request);
  }

  /**
   * The server has refused a frame, which may be none of these. What it could not read names nothing: then it is the
   * first that nothing has answered.
   *
   * @param {FrameRefused} refusal
   */
  refused(refusal) {
    const { refused, exchange_id: exchangeId, code } = refusal;
    // Their pongs still come, and tell nothing.
    if (AGAIN_ELSEWHERE.has(code)) this.#sent = [];
    const [first] = this.#sent;
    if (!first || (refused && first.frame.type !== refused)) return;
    if (exchangeId && first.frame.exchange_id && first.frame.exchange_id !== exchangeId) return;
    this.#sent.shift();
    // The answer to the first time may have been lost with its socket.
    const wasTaken = code === "approval_not_found" && first.timesSent > 1;
    first.settle(wasTaken ? undefined : new Refused(refusal));
  }

  /** @param {Error} error  with which all of them fail */
  end(error) {
    for (const { settle } of [...this.#waiting]) settle(error);
  }

  /** @param {Request} request */
  #sendOne(request) {
    const isSent = this.#send(request.frame, () => {
      if (this.#sent[0] !== request) return;
      this.#sent.shift();
      request.settle();
    });
    if (!isSent) return;
    request.timesSent += 1;
    this.#sent.push(request);
  }
}
