/**
 * One exchange as it goes on: an async iterator of its events, which ends after its `final`.
 *
 * It outlasts sockets: on a new one it follows on from the last event that it has given. `started` and `reset` say that
 * the exchange is shown anew from there, so that who reads it forgets what it has read before (`applyEvent` does).
 */

/** @import { ClientFrame, ExchangeEvent, FrameRefused, ServerEvent } from "@agentic-backend/client/protocol" */

import { Refused } from "./errors.js";
import { EventQueue } from "./event-queue.js";
import { begins, counts, isOfExchange } from "./transcript.js";

/**
 * What a follower has of its Chat.
 *
 * @typedef {object} Line
 * @property {(frame: ClientFrame) => boolean} send
 * @property {(exchangeId: string) => boolean} isShown  whether this socket has shown the exchange, or is about to
 * @property {(exchange: Exchange) => void} begun  the server has taken its ask
 * @property {(follower: Follower) => void} ended  no more events come for it
 * @property {(follower: Follower) => void} left   it wants no more events
 */

/**
 * Who gets the events of an exchange or of a session, also over many sockets.
 *
 * @typedef {object} Follower
 * @property {string | null} sessionId
 * @property {() => void} follow  asks for the events that it has not got, as on a new socket
 * @property {(event: ServerEvent, size: number) => void} received
 * @property {(refusal: FrameRefused) => boolean} follows  whether a refused `follow` was its own
 * @property {(refusal: FrameRefused) => void} refused  its `follow`, or its ask
 * @property {(error: Error) => void} failed  it gets no more events
 */

/**
 * Whether an event counts for a reader that has got an exchange's events up to `seq`. At 0 only what shows all of the
 * exchange does: other events were on their way when that was asked for.
 *
 * @param {ExchangeEvent} event
 * @param {number} seq
 */
export const countsAt = (event, seq) => counts(event, seq || Infinity);

export class Exchange {
  /** Null until the server has named it. @type {string | null} */
  id;
  /** Null until the server has named it, and in query mode. @type {string | null} */
  sessionId;
  /** The last event that was given to the reader; 0 at first, and while the exchange is to be shown anew. */
  seq;
  /** The id that the client has given to its ask, or null. @type {string | null} */
  clientExchangeId;
  /** The text of that ask. @type {string | null} */
  #asked;
  #isStopping = false;
  /** @type {Line} */
  #line;
  /** @type {EventQueue<ExchangeEvent>} */
  #events = new EventQueue(
    () => this.follow(),
    () => this.#line.left(this),
  );

  /**
   * @param {Line} line
   * @param {{ id?: string, sessionId: string | null, seq?: number, clientExchangeId?: string, asked?: string }} known
   */
  constructor(line, { id, sessionId, seq = 0, clientExchangeId, asked }) {
    this.#line = line;
    this.id = id ?? null;
    this.sessionId = sessionId;
    this.seq = seq;
    this.clientExchangeId = clientExchangeId ?? null;
    this.#asked = asked ?? null;
  }

  /** Its events; who leaves the loop hears no more of it, and it goes on. */
  [Symbol.asyncIterator]() {
    return this.#events;
  }

  /** Ends it; its `final` follows. */
  stop() {
    this.#isStopping = true;
    this.#sendStop();
  }

  follow() {
    // An ask that was not acknowledged is sent again instead, and a reader that is behind asks when it has caught up.
    if (!this.id || this.#events.isDropping) return;
    // Of what follows `seq` some may be on its way here, and would come again, merged with what is later.
    if (this.#line.isShown(this.id)) this.seq = 0;
    this.#line.send({ type: "follow", session_id: this.sessionId, exchange_id: this.id, after_seq: this.seq });
    if (this.#isStopping) this.#sendStop();
  }

  /**
   * @param {ServerEvent} event
   * @param {number} size
   */
  received(event, size) {
    if (!isOfExchange(event) || !this.#isOwn(event) || !countsAt(event, this.seq)) return;
    if (this.id === null) this.#begun(event);
    if (!this.#events.put(event, size)) return;
    this.seq = event.seq;
    if (event.type !== "final") return;
    this.#events.end();
    this.#line.ended(this);
  }

  /** @param {FrameRefused} refusal */
  follows({ exchange_id: id }) {
    return this.id !== null && id === this.id;
  }

  /** @param {FrameRefused} refusal */
  refused(refusal) {
    this.#events.end(new Refused(refusal));
    this.#line.ended(this);
  }

  /** @param {Error} error */
  failed(error) {
    this.#events.end(error);
  }

  /** @param {ExchangeEvent} event */
  #begun(event) {
    this.id = event.exchange_id;
    this.sessionId = event.session_id;
    this.#line.begun(this);
    if (this.#isStopping) this.#sendStop();
  }

  /** @param {ExchangeEvent} event */
  #isOwn(event) {
    if (this.id) return event.exchange_id === this.id;
    return begins({ clientExchangeId: this.clientExchangeId, asked: this.#asked }, event);
  }

  #sendStop() {
    if (this.id) this.#line.send({ type: "stop", session_id: this.sessionId, exchange_id: this.id });
  }
}
