/**
 * Chats with a server over one connection: asks, follows, decides and stops, any number of exchanges at the same time.
 *
 * Owns what has to outlast a socket: the asks and decisions that the server has not acknowledged, which are sent again,
 * and those that follow an exchange or a session, which go on from the last event that they have given.
 */

/** @import { Ask, AwaitingHuman, ClientFrame, FrameRefused, HumanResume } from "@agentic-backend/client/protocol" */
/** @import { ServerEvent } from "@agentic-backend/client/protocol" */
/** @import { DecidedRequest } from "./approvals.js" */
/** @import { NamedAsk } from "./asks.js" */
/** @import { ConnectionState, SocketClass, Tokens } from "./connection.js" */
/** @import { Follower, Line } from "./exchange.js" */

import { payloadOf } from "./approvals.js";
import { Asks } from "./asks.js";
import { BoundedMap } from "./bounded-map.js";
import { Connection, TOO_MANY, socketUrl } from "./connection.js";
import { Disconnected, Unreadable } from "./errors.js";
import { jsonCopy, wellFormed } from "./exact-json.js";
import { Exchange } from "./exchange.js";
import { httpAnswer } from "./http-answer.js";
import { randomId } from "./random-id.js";
import { isKnown, isReadable } from "./reading.js";
import { Requests } from "./requests.js";
import { SessionFeed } from "./session-feed.js";
import { SessionList } from "./session-list.js";
import { isOfExchange } from "./transcript.js";

/**
 * @typedef {object} ChatOptions
 * @property {(wanted: { renew: boolean }) => Promise<Tokens | null> | Tokens | null} [tokens]  see ConnectionOptions
 * @property {SocketClass} [WebSocket]  for runtimes without a global one
 * @property {number} [patience]  how many seconds it tries to reach a server, now and whenever the connection is lost,
 *   before it is `unreachable`, and how long the server may take to begin an exchange, or to take a decision or a stop: 60
 * @property {(event: ServerEvent) => void} [onEvent]  gets every event as it comes, also those that were seen before
 *   and those of types that this version doesn't know, but none that can't be read
 * @property {(state: ConnectionState) => void} [onState]
 */

const FOLLOW_AGAIN_MS = 3_000;
const MOST_SHOWN = 1_000;
const PATIENCE_S = 60;
const LEFT_BY_CONNECT_ONLY = new Set(["signed_out", "refused", "unreachable", "closed"]);

/**
 * A chat with the server at this address, which connects at once. It comes back by itself; see Connection.
 *
 * @param {string | URL} server  its page's address: what comes before `agentic/v1`
 * @param {ChatOptions} [options]
 */
export function connect(server, options) {
  const chat = new Chat(server, options);
  chat.connect();
  return chat;
}

/** @param {Follower} follower */
const isUnanswered = (follower) => follower instanceof Exchange && follower.id === null;

export class Chat {
  #connection;
  /** @type {Set<Follower>} */
  #followers = new Set();
  #asks;
  #requests;
  /** The exchanges of which this socket tells, until they end, by id. @type {BoundedMap<string, true>} */
  #shown = new BoundedMap(MOST_SHOWN);
  #onEvent;
  #onState;
  /** @type {Line} */
  #line = {
    send: (frame) => this.#send(frame),
    isShown: (exchangeId) => this.#shown.has(exchangeId),
    begun: (exchange) => this.#asks.forget(exchange.clientExchangeId),
    ended: (follower) => this.#followers.delete(follower),
    left: (follower) => this.#left(follower),
  };

  /**
   * @param {string | URL} server
   * @param {ChatOptions} [options]
   */
  constructor(server, { tokens, WebSocket, patience = PATIENCE_S, onEvent = () => {}, onState = () => {} } = {}) {
    this.#asks = new Asks(
      (frame) => this.#connection.send(frame),
      patience,
      (id) => this.#late(id),
    );
    this.#requests = new Requests(
      (frame, answered) => this.#connection.request(frame, answered),
      patience,
      () => this.#connection.reconnect(),
    );
    this.#onEvent = onEvent;
    this.#onState = onState;
    this.#connection = new Connection({
      url: socketUrl(server),
      tokens,
      WebSocket,
      patience,
      httpAnswer: (signal) => httpAnswer(server, signal),
      onOpen: () => this.#opened(),
      onEvent: (event, size) => this.#received(event, size),
      onState: (state) => this.#changed(state),
    });
  }

  /** Connects now; from the phases `signed_out`, `refused`, `unreachable` and `closed` nothing else leads back. */
  connect() {
    this.#connection.connect();
  }

  /** Closes the connection. Whoever reads gets Disconnected; what runs on the server goes on. */
  close() {
    this.#connection.close();
  }

  /**
   * Shows newer tokens to the server, before those in use end.
   *
   * @param {Tokens} tokens
   */
  authenticate(tokens) {
    this.#connection.authenticate(tokens);
  }

  /**
   * Asks. It counts once, however often the connection breaks meanwhile. Who reads the exchange gets Refused if the
   * server doesn't take the ask, and Disconnected if it can't be reached any more.
   * An ask that comes too soon for the server waits its time, once. Throws TypeError if JSON can't write a field.
   *
   * @param {string} message
   * @param {Partial<Omit<Ask, "type" | "message">>} [fields]
   */
  ask(message, fields = {}) {
    const clientExchangeId = fields.client_exchange_id ?? randomId();
    const sessionId = fields.session_id ?? null;
    const asked = wellFormed(message);
    /** @type {NamedAsk} */
    const frame = jsonCopy({ ...fields, type: "ask", message: asked, client_exchange_id: clientExchangeId });
    const exchange = new Exchange(this.#line, { sessionId, clientExchangeId, asked });
    this.#followers.add(exchange);
    this.#asks.add(frame);
    return exchange;
  }

  /**
   * Follows an exchange that was begun elsewhere or before: what came after `seq`, then what comes.
   *
   * @param {string | null} sessionId  null in query mode
   * @param {string} id
   * @param {number} [seq]
   */
  followExchange(sessionId, id, seq = 0) {
    return this.#followed(new Exchange(this.#line, { id, sessionId, seq }));
  }

  /**
   * Follows a session.
   *
   * @param {string} sessionId
   */
  followSession(sessionId) {
    return this.#followed(new SessionFeed(this.#line, sessionId));
  }

  /** Follows the list of the user's sessions: all that changes in it, whoever changes it. */
  followSessions() {
    return this.#followed(new SessionList(this.#line));
  }

  /**
   * Decides on requests of an `awaiting_human`, of which all count or none; those that are left out stay open. Resolves
   * when the server has taken it. Rejects with Refused, with Disconnected, after which it may have been taken, or with
   * TypeError if JSON can't write what was decided.
   *
   * @param {AwaitingHuman} waiting
   * @param {readonly DecidedRequest[]} made
   */
  async decide({ session_id: sessionId, exchange_id }, made) {
    /** @type {HumanResume} */
    const frame = { type: "human_resume", session_id: sessionId ?? "", exchange_id, payload: payloadOf(made) };
    await this.#requests.add(jsonCopy(frame));
  }

  /**
   * Ends what runs in a session; its `final` tells that it has ended. Resolves when the server has taken it. Rejects with
   * Refused, or with Disconnected, after which it may have been taken.
   *
   * @param {string} sessionId
   */
  async stop(sessionId) {
    await this.#requests.add({ type: "stop", session_id: sessionId });
  }

  /**
   * @template {Follower} T
   * @param {T} follower
   */
  #followed(follower) {
    this.#followers.add(follower);
    follower.follow();
    return follower;
  }

  #opened() {
    this.#asks.sendAll();
    this.#requests.sendAll();
    for (const follower of this.#followers) follower.follow();
  }

  /** @param {ClientFrame} frame */
  #send(frame) {
    const isSent = this.#connection.send(frame);
    if (isSent && frame.type === "follow" && frame.exchange_id) this.#shown.set(frame.exchange_id, true);
    return isSent;
  }

  /** @type {(event: ServerEvent, size: number) => void} */
  #received(event, size) {
    if (!isReadable(event)) return this.#unreadable(event);
    if (event.type === "error" && !("seq" in event)) this.#refused(event);
    else if (isKnown(event)) this.#told(event, size);
    this.#onEvent(event);
  }

  /**
   * Those that it concerns could only show something wrong from here on.
   *
   * @param {ServerEvent} event
   */
  #unreadable(event) {
    for (const follower of this.#followers) {
      const isConcerned =
        follower instanceof Exchange
          ? "exchange_id" in event && follower.id !== null && follower.id === event.exchange_id
          : "session_id" in event && follower.sessionId === event.session_id;
      if (!isConcerned) continue;
      this.#left(follower);
      follower.failed(new Unreadable(event.type));
    }
  }

  /** @type {(event: ServerEvent, size: number) => void} */
  #told(event, size) {
    if (event.type === "started") this.#asks.forget(event.client_exchange_id);
    const mayAnswerAsk = isOfExchange(event) && !this.#isOfAnother(event.exchange_id);
    for (const follower of this.#followers) {
      if (mayAnswerAsk || !isUnanswered(follower)) follower.received(event, size);
    }
    if (!isOfExchange(event)) return;
    if (event.type === "final") this.#shown.delete(event.exchange_id);
    else this.#shown.set(event.exchange_id, true);
  }

  /**
   * Whether the exchange is known not to be that of an ask whose first event has not come.
   *
   * @param {string} exchangeId
   */
  #isOfAnother(exchangeId) {
    const isFollowed = [...this.#followers].some(
      (follower) => follower instanceof Exchange && follower.id === exchangeId,
    );
    return isFollowed || this.#shown.has(exchangeId);
  }

  /** @param {FrameRefused} refusal */
  #refused(refusal) {
    switch (refusal.refused) {
      case "ask":
      // What the server could not read.
      case undefined:
        return this.#askRefused(refusal);
      case "human_resume":
      case "stop":
        return this.#requests.refused(refusal);
      case "follow":
      case "follow_sessions":
        for (const follower of this.#followers) {
          if (!follower.follows(refusal)) continue;
          if (refusal.retryable) this.#followLater(follower);
          else follower.refused(refusal);
        }
    }
  }

  /** @param {FrameRefused} refusal */
  #askRefused(refusal) {
    const id = this.#asks.refused(refusal)?.client_exchange_id;
    if (!id && !refusal.refused) return this.#requests.refused(refusal);
    if (!id || this.#asks.keep(id, refusal)) return;
    this.#asks.forget(id);
    for (const exchange of this.#askers(id)) exchange.refused(refusal);
  }

  /** @param {string} id  of an ask that the server has not acknowledged in time */
  #late(id) {
    for (const exchange of this.#askers(id)) {
      this.#followers.delete(exchange);
      exchange.failed(new Disconnected("unreachable", null, "The server did not begin the exchange in time."));
    }
  }

  /**
   * Who reads what an ask begins.
   *
   * @param {string} id
   */
  #askers(id) {
    return [...this.#followers].filter((each) => each instanceof Exchange && each.clientExchangeId === id);
  }

  /** @param {Follower} follower */
  #followLater(follower) {
    /** @type {any} */
    const timer = setTimeout(() => this.#followers.has(follower) && follower.follow(), FOLLOW_AGAIN_MS);
    // Node's: a closed chat keeps no program alive.
    timer.unref?.();
  }

  /** @param {Follower} follower */
  #left(follower) {
    const { sessionId } = follower;
    this.#followers.delete(follower);
    if (follower instanceof SessionList) {
      const isFollowed = [...this.#followers].some((other) => other instanceof SessionList);
      if (!isFollowed) this.#connection.send({ type: "unfollow_sessions" });
      return;
    }
    const isFollowed = [...this.#followers].some((other) => other.sessionId === sessionId);
    if (sessionId && !isFollowed) this.#connection.send({ type: "unfollow", session_id: sessionId });
  }

  /** @param {ConnectionState} state */
  #changed(state) {
    if (state.phase !== "open") this.#shown.clear();
    const comesBack = state.phase === "refused" && state.code === TOO_MANY;
    if (LEFT_BY_CONNECT_ONLY.has(state.phase) && !comesBack) {
      const error = new Disconnected(state.phase, state.code, state.why);
      for (const { client_exchange_id: id } of this.#asks.frames) this.#asks.forget(id);
      this.#requests.end(error);
      for (const follower of this.#followers) follower.failed(error);
      this.#followers.clear();
    }
    this.#onState(state);
  }
}
