/** Queries in the open conversation: they have no session, are kept nowhere, and end with their socket. */

import { answersAsk, applyEvent, ongoing, withExchange } from "./client/transcript.js";

export class Queries {
  constructor(state, send) {
    Object.assign(this, { state, send });
  }

  received(event) {
    if (!event.exchange_id) return;
    const { isQuery, transcript } = this.state.now;
    if (isQuery && (this.state.exchange(event.exchange_id) || answersAsk(transcript, event))) {
      this.state.set({ transcript: applyEvent(transcript, event) });
      if (event.type === "started" && this.#running?.stopping) this.stop();
    } else if (event.type === "started") {
      // Nobody looks at it any more, and nothing of it is kept.
      this.send({ type: "stop", exchange_id: event.exchange_id });
    }
  }

  stop() {
    if (this.state.now.isQuery && this.#running?.seq) this.send({ type: "stop", exchange_id: this.#running.id });
  }

  /** There is another socket: the query that ran has ended with the last one. */
  end() {
    const running = this.#running;
    if (!this.state.now.isQuery || !running || running.status === "sending") return;
    const ended = (exchange) => ({ ...exchange, status: "stopped", blocks: [], progress: null });
    this.state.set({ transcript: withExchange(this.state.now.transcript, running.id, ended) });
  }

  get #running() {
    return ongoing(this.state.now.transcript);
  }
}
