/**
 * The asks that the server has not acknowledged: sent again, under the same id, on every new socket.
 *
 * One that was refused for the moment waits its time and is then sent again by itself, once.
 */

/** @import { Ask, FrameRefused } from "@agentic-backend/client/protocol" */

import { timerOf } from "./timer.js";

/** @typedef {Ask & { readonly client_exchange_id: string }} NamedAsk */

/** @typedef {ReturnType<typeof setTimeout>} Timer */

/** @typedef {{ readonly code: string, readonly content: string, readonly until: number | null }} Kept  why an ask waits, and until when */

const FOR_THE_MOMENT = new Set(["rate_limited", "too_many_runs", "overloaded"]);
export const RESTARTING = "shutting_down";

export class Asks {
  /**
   * By client exchange id.
   *
   * @type {Map<string, { frame: NamedAsk, timer: Timer | null, postponed: boolean, lateTimer: Timer | null }>}
   */
  #asks = new Map();
  #send;
  #patience;
  #onLate;

  /**
   * @param {(frame: NamedAsk) => unknown} send  gets a frame to the server, if it can be reached
   * @param {number} [patience]  how many seconds the server may take to acknowledge one
   * @param {(id: string) => void} [onLate]  gets one that was given up
   */
  constructor(send, patience = Infinity, onLate = () => {}) {
    this.#send = send;
    this.#patience = patience;
    this.#onLate = onLate;
  }

  get frames() {
    return [...this.#asks.values()].map(({ frame }) => frame);
  }

  /** @param {NamedAsk} frame */
  add(frame) {
    const id = frame.client_exchange_id;
    this.#asks.set(id, { frame, timer: null, postponed: false, lateTimer: timerOf(this.#patience, () => this.#late(id)) });
    this.#send(frame);
  }

  /** @param {string | null} [id] */
  find(id) {
    if (!id) return null;
    return this.#asks.get(id)?.frame ?? null;
  }

  /**
   * The ask that the server has refused; null if it isn't here. What the server could not read it can't name: then it
   * is the first that nothing has answered.
   *
   * @param {Pick<FrameRefused, "refused" | "client_exchange_id">} refusal
   */
  refused({ refused, client_exchange_id: id }) {
    if (refused) return this.find(id);
    const unanswered = [...this.#asks.values()].find(({ timer }) => timer === null);
    return unanswered?.frame ?? null;
  }

  /** @param {string | null} [id] */
  forget(id) {
    if (!id) return;
    clearTimeout(this.#asks.get(id)?.timer ?? undefined);
    clearTimeout(this.#asks.get(id)?.lateTimer ?? undefined);
    this.#asks.delete(id);
  }

  /** @param {string} id */
  #late(id) {
    this.forget(id);
    this.#onLate(id);
  }

  sendAll() {
    for (const { frame, timer } of this.#asks.values()) if (timer === null) this.#send(frame);
  }

  /**
   * Keeps an ask that the server can't take now: until the time that it names, or until there is a new socket.
   * Null if it is not sent again by itself.
   *
   * @param {string} id
   * @param {Pick<FrameRefused, "code" | "content" | "retry_after_s">} refusal
   * @returns {Kept | null}
   */
  keep(id, { code, content, retry_after_s: waitS }) {
    if (code === RESTARTING) return { code, content, until: null };
    const ask = this.#asks.get(id);
    if (!ask || !FOR_THE_MOMENT.has(code) || waitS === undefined || ask.postponed) return null;
    if (waitS > this.#patience) return null;
    ask.postponed = true;
    ask.timer = timerOf(waitS, () => {
      ask.timer = null;
      this.#send(ask.frame);
    });
    return { code, content, until: Date.now() + waitS * 1_000 };
  }
}
