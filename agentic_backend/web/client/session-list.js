/**
 * What changes in the list of the user's sessions: an async iterator of `following_sessions`, `session` and
 * `session_deleted`.
 *
 * It outlasts sockets. At each `following_sessions` who reads it reads the list over REST: it comes first, on each new
 * socket, and where changes were missed, also because the reader was too slow.
 */

/** @import { FrameRefused, ServerEvent } from "@agentic-backend/client/protocol" */
/** @import { Line } from "./exchange.js" */

import { Refused } from "./errors.js";
import { EventQueue } from "./event-queue.js";

const TOLD = new Set(["following_sessions", "session", "session_deleted"]);

export class SessionList {
  /** It is of no single session. @type {null} */
  sessionId = null;
  /** Whether `following_sessions` has come: before it, changes are told to others only. */
  #hasBegun = false;
  /** @type {Line} */
  #line;
  /** @type {EventQueue<ServerEvent>} */
  #events = new EventQueue(
    () => this.follow(),
    () => this.#line.left(this),
  );

  /** @param {Line} line */
  constructor(line) {
    this.#line = line;
  }

  /** Its events; who leaves the loop hears no more. */
  [Symbol.asyncIterator]() {
    return this.#events;
  }

  follow() {
    if (this.#events.isDropping) return;
    this.#hasBegun = false;
    this.#line.send({ type: "follow_sessions" });
  }

  /**
   * @param {ServerEvent} event
   * @param {number} size
   */
  received(event, size) {
    if (!TOLD.has(event.type)) return;
    this.#hasBegun ||= event.type === "following_sessions";
    if (this.#hasBegun) this.#events.put(event, size);
  }

  /** @param {FrameRefused} refusal */
  follows({ refused }) {
    return refused === "follow_sessions";
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
}
