/**
 * All that happens in a session from now on: an async iterator of the events of its running exchange, from its
 * beginning, and of every later one.
 *
 * It outlasts sockets. An exchange that began and ended while there was none is not heard of: its messages are missing
 * between the ranks that are known (`missingAfter`), and are read over REST.
 */

/** @import { ExchangeEvent, FrameRefused, ServerEvent } from "@agentic-backend/client/protocol" */
/** @import { Follower, Line } from "./exchange.js" */

import { BoundedMap } from "./bounded-map.js";
import { Refused } from "./errors.js";
import { EventQueue } from "./event-queue.js";
import { countsAt } from "./exchange.js";
import { isOfExchange } from "./transcript.js";

const MOST_OPEN = 100;

export class SessionFeed {
  /** @type {string} */
  sessionId;
  /** The last event that was given to the reader, by the exchange, until that ends. @type {BoundedMap<string, number>} */
  #places = new BoundedMap(MOST_OPEN);
  /** Whether the server tells of later exchanges too: it doesn't where exchanges alone are followed. */
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
    this.#followsSession = this.#places.size === 0;
    if (this.#followsSession) this.#line.send({ type: "follow", session_id: this.sessionId });
    for (const [id, seq] of this.#places) {
      // As in Exchange.
      const afterSeq = this.#line.isShown(id) ? 0 : seq;
      this.#places.set(id, afterSeq);
      this.#line.send({ type: "follow", session_id: this.sessionId, exchange_id: id, after_seq: afterSeq });
    }
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
    return sessionId === this.sessionId && (id ? this.#places.has(id) : this.#followsSession);
  }

  /** @param {FrameRefused} refusal */
  refused(refusal) {
    if (refusal.exchange_id) {
      // The exchange that was followed is gone: what the session tells instead is the truth.
      this.#places.delete(refusal.exchange_id);
      this.#followSessionIfIdle();
    } else {
      this.#events.end(new Refused(refusal));
      this.#line.ended(this);
    }
  }

  /** @param {Error} error */
  failed(error) {
    this.#events.end(error);
  }

  /** @type {(event: ExchangeEvent, size: number) => void} */
  #receivedOfExchange(event, size) {
    const { exchange_id: id, seq } = event;
    if (!countsAt(event, this.#places.get(id) ?? 0) || !this.#events.put(event, size)) return;
    if (event.type !== "final") return void this.#places.set(id, seq);
    this.#places.delete(id);
    this.#followSessionIfIdle();
  }

  #followSessionIfIdle() {
    if (this.#places.size === 0 && !this.#followsSession) this.follow();
  }
}
