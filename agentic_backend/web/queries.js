/**
 * Queries in the open conversation, a temporary chat: they have no session, are kept nowhere, and end with their socket.
 * Each brings along what was said before it.
 */

import { answersAsk, applyEvent, ongoing, withExchange } from "./client/transcript.js";
import { askedText, textOf } from "./timeline.js";

/** The server reads so many earlier messages; frames of another size are for whom the operator has set them. */
const MOST_PAST = 400;
const FRAME_BYTES = 2_097_152;

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

/** What was said in `transcript`, as the next query's history: the newest that has room in half a frame. */
export function historyOf({ exchanges }, limits) {
  let room = (limits?.frame_bytes ?? FRAME_BYTES) / 2;
  const fits = ({ content }) => (room -= new TextEncoder().encode(content).length) >= 0;
  const said = exchanges.flatMap((exchange) => [
    { role: "user", content: askedText(exchange) },
    ...exchange.messages
      .filter(({ role, channel }) => role === "assistant" && channel === "final")
      .map(({ parts }) => ({ role: "assistant", content: textOf(parts) })),
  ]);
  const newest = said.filter(({ content }) => content).slice(-MOST_PAST).reverse();
  const end = newest.findIndex((message) => !fits(message));
  return (end < 0 ? newest : newest.slice(0, end)).reverse();
}
