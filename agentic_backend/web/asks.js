/**
 * The asks that the server has not acknowledged: sent again, under the same id, on every new socket.
 *
 * One that was refused for the moment waits its time and is then sent again by itself, once.
 */

const FOR_THE_MOMENT = new Set(["rate_limited", "too_many_runs"]);
export const RESTARTING = "shutting_down";

export class Asks {
  /** By client exchange id: `{frame, timer, postponed}`. */
  #asks = new Map();

  constructor(send) {
    this.send = send;
  }

  get frames() {
    return [...this.#asks.values()].map(({ frame }) => frame);
  }

  add(frame) {
    this.#asks.set(frame.client_exchange_id, { frame, timer: null, postponed: false });
    this.send(frame);
  }

  find(id) {
    return this.#asks.get(id)?.frame ?? null;
  }

  forget(id) {
    clearTimeout(this.#asks.get(id)?.timer);
    this.#asks.delete(id);
  }

  sendAll() {
    for (const { frame, timer } of this.#asks.values()) if (timer === null) this.send(frame);
  }

  /**
   * Keeps an ask that the server can't take now: until the time that it names, or until there is a new socket.
   * `{content, until}` says why and when; null if it is not sent again by itself.
   */
  keep(id, { code, content, retry_after_s: waitS = null }) {
    if (code === RESTARTING) return { content, until: null };
    const ask = this.#asks.get(id);
    if (!FOR_THE_MOMENT.has(code) || waitS === null || ask.postponed) return null;
    ask.postponed = true;
    ask.timer = setTimeout(() => {
      ask.timer = null;
      this.send(ask.frame);
    }, waitS * 1_000);
    return { content, until: Date.now() + waitS * 1_000 };
  }
}
