/**
 * All that happens in a session from now on: an async iterator of the events of its running exchange, from its
 * beginning, and of every later one.
 *
 * It outlasts sockets. An exchange that began and ended while there was none is not heard of: its messages are missing
 * between the ranks that are known (`missingAfter`), and are read over REST.
 */

/** @import { ExchangeEvent, FrameRefused, ServerEvent } from "@agentic-backend/client/protocol" */
/** @import { Follower, Line } from "./exchange.js" */

import { Disconnected, Refused } from "./errors.js";
import { EventQueue } from "./event-queue.js";
import { counts, isOfExchange } from "./transcript.js";

export class SessionFeed {
  /** @type {string} */
  sessionId;
  /** The exchange that events came of last. @type {{ id: string, seq: number, ended: boolean } | null} */
  #last = null;
  /** Whether the server tells of later exchanges too: it doesn't where an exchange alone is followed. */
  #followsSession = false;
  /** @type {Line} */
  #line;
  /** @type {EventQueue<ServerEvent>} */
  #events = new EventQueue(
    () => this.follow(),
    () => this.#line.left(this),
  );

  /**
   * @param {Line} line
   * @param {string} sessionId
   */
  constructor(line, sessionId) {
    this.#line = line;
    this.sessionId = sessionId;
  }

  /** Its events; who leaves the loop hears no more of the session. */
  [Symbol.asyncIterator]() {
    return this.#events;
  }

  follow() {
    if (this.#events.isDropping) return;
    const running = this.#last && !this.#last.ended ? { exchange_id: this.#last.id, after_seq: this.#last.seq } : null;
    this.#followsSession = !running;
    this.#line.send({ type: "follow", session_id: this.sessionId, ...running });
  }

  /**
   * @param {ServerEvent} event
   * @param {number} size
   */
  received(event, size) {
    const sessionId = event.type === "session" ? event.session.id : "session_id" in event ? event.session_id : null;
    if (sessionId !== this.sessionId) return;
    if (isOfExchange(event)) this.#receivedOfExchange(event, size);
    else this.#events.put(event, size);
  }

  /** @param {FrameRefused} refusal */
  follows({ session_id: sessionId, exchange_id: id }) {
    return sessionId === this.sessionId && (this.#followsSession ? !id : id === this.#last?.id);
  }

  /** @param {FrameRefused} refusal */
  refused(refusal) {
    if (refusal.exchange_id) {
      // The exchange that was followed is gone: what the session tells instead is the truth.
      this.#last = null;
      this.follow();
    } else {
      this.#events.end(new Refused(refusal));
      this.#line.ended(this);
    }
  }

  /** @param {Disconnected} error */
  disconnected(error) {
    this.#events.end(error);
  }

  /** @type {(event: ExchangeEvent, size: number) => void} */
  #receivedOfExchange(event, size) {
    const { exchange_id: id, seq } = event;
    const known = this.#last?.id === id ? this.#last : null;
    if (known && (known.ended || !counts(event, known.seq))) return;
    if (!this.#events.put(event, size)) return;
    this.#last = { id, seq, ended: event.type === "final" };
    if (this.#last.ended && !this.#followsSession) this.follow();
  }
}
