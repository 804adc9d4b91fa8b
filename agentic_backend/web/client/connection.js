/**
 * One WebSocket to the server: opens it, notices when it is dead, and comes back with jittered backoff.
 *
 * It knows nothing of sessions. Whoever owns it gets `onOpen` for every new socket (follow and ask again there),
 * `onEvent` for every event, and `onState` when its phase changes. It comes back by itself from all phases but
 * `signed_out`, `refused` and `closed`, which only `connect()` leaves; too many connections are `refused` for a minute.
 */

/** @import { Authenticate, ClientFrame, ServerEvent } from "@agentic-backend/client/protocol" */

import { parseExactly, writtenJson } from "./exact-json.js";
import { serverUrl } from "./server-url.js";

/** @typedef {Omit<Authenticate, "type">} Tokens */

/**
 * @typedef {object} ConnectionState
 * @property {"connecting" | "open" | "unsure" | "reconnecting" | "signed_out" | "refused" | "closed"} phase
 *   `unsure`: the network is said to be gone, and the socket has not been heard since
 * @property {number | null} code  why it is `signed_out` or `refused`: the server's close code; 1012 while a server
 *   that said that it restarts is not back; otherwise null
 */

/**
 * What is used of a WebSocket: the browser's, Node's (22 and later), or that of the package `ws`.
 *
 * @typedef {object} Socket
 * @property {number} readyState
 * @property {(data: string) => void} send
 * @property {() => void} close
 * @property {((event: any) => void) | null} onopen
 * @property {((event: any) => void) | null} onmessage
 * @property {((event: any) => void) | null} onclose
 * @property {((event: any) => void) | null} onerror
 */

/** @typedef {new (url: string | URL, protocols: string[]) => Socket} SocketClass */

/**
 * @typedef {object} ConnectionOptions
 * @property {string | URL} url  see socketUrl
 * @property {((wanted: { renew: boolean }) => Promise<Tokens | null> | Tokens | null) | undefined} [tokens]  those to use, asked for
 *   at each connection; with `renew` the server has refused the last ones, and null says that there are no others.
 *   Where it rejects, the connection tries again later.
 * @property {SocketClass | undefined} [WebSocket]  for runtimes without a global one
 * @property {() => void} onOpen
 * @property {(event: ServerEvent, size: number) => void} onEvent  `size` is the event's length as JSON, in characters
 * @property {(state: ConnectionState) => void} onState
 */

const SUBPROTOCOL = "chat.v2";
const OPEN = 1;
const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 30_000;
/** A server that said that it restarts is back soon. */
const LONGEST_DELAY_OF_RESTART_MS = 5_000;
/** A socket that closes sooner has not really come to be: the next attempt waits longer, whatever it has received. */
const SETTLED_AFTER_MS = 5_000;
/** While nothing is received for so long, a ping asks whether the other end is still there … */
const PING_AFTER_MS = 20_000;
/** … which must bring an answer within this time. */
const ANSWER_WITHIN_MS = 10_000;
const ANSWER_WITHIN_AFTER_WAKE_MS = 4_000;
const LOOK_EVERY_MS = 1_000;
const TOO_MANY_WAIT_MS = 60_000;

const BROKEN = 1006;
export const RESTART = 1012;
export const TOO_LARGE = 1009;
const TOKEN_REFUSED = 4401;
export const TOO_MANY = 4429;
/** Close codes after which coming back at once would only repeat the refusal. */
const REFUSALS = new Set([1002, 1003, 1008, TOO_LARGE, 4403, TOO_MANY]);

/**
 * The address of the WebSocket of the server whose page is at `server`.
 *
 * @param {string | URL} server
 */
export function socketUrl(server) {
  const socket = serverUrl(server, "chatbot/query/ws");
  socket.protocol = socket.protocol === "https:" ? "wss:" : "ws:";
  return socket;
}

export class Connection {
  /** @type {ConnectionOptions} */
  #options;
  /** @type {Socket | null} */
  #socket = null;
  /** @type {ConnectionState["phase"]} */
  #phase = "connecting";
  #attempt = 0;
  /** @type {Tokens | null} */
  #tokens = null;
  /** The server has refused a token, and not taken another since. */
  #tokenRefused = false;
  /** The server has said that it goes, and no other has been heard since. */
  #restarts = false;
  /** Another object for every call of `connect`, of which the last one counts. @type {object | null} */
  #connecting = null;
  /** @type {ReturnType<typeof setTimeout> | null} */
  #retryTimer = null;
  /** @type {ReturnType<typeof setInterval> | null} */
  #lookTimer = null;
  #openedAt = Infinity;
  #heardAt = 0;
  /** Until when something must be received for the socket not to be given up. @type {number | null} */
  #answerBy = null;

  /** @param {ConnectionOptions} options */
  constructor(options) {
    if (!options.WebSocket && !globalThis.WebSocket) {
      throw new TypeError("this runtime has no WebSocket: give its class in the options");
    }
    this.#options = options;
  }

  /** Opens a socket now, whatever the phase; one that is open is replaced. */
  async connect() {
    this.#abandon();
    this.#lookTimer ??= setInterval(() => this.#look(), LOOK_EVERY_MS);
    const connecting = {};
    this.#connecting = connecting;
    this.#report(this.#attempt ? "reconnecting" : "connecting", this.#restartCode);
    const renew = this.#tokenRefused;
    let tokens;
    try {
      tokens = (await this.#options.tokens?.({ renew })) ?? null;
    } catch {
      if (connecting === this.#connecting) this.#comeBack();
      return;
    }
    if (connecting !== this.#connecting) return;
    this.#tokens = tokens;
    if (tokens || !renew) return this.#openSocket();
    this.#tokenRefused = false;
    this.#report("signed_out", TOKEN_REFUSED);
  }

  /** Closes the socket, and doesn't come back. */
  close() {
    this.#abandon();
    if (this.#lookTimer !== null) clearInterval(this.#lookTimer);
    this.#lookTimer = null;
    this.#report("closed");
  }

  /**
   * Takes the user's newer tokens, and shows them to the server if there is a socket.
   *
   * @param {Tokens} tokens
   */
  authenticate(tokens) {
    this.#tokens = tokens;
    this.send({ type: "authenticate", ...tokens });
  }

  /**
   * Sends a frame; false if there is no open socket to carry it.
   *
   * @param {ClientFrame} frame
   */
  send(frame) {
    if (this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(writtenJson(frame));
    return true;
  }

  /** The machine woke up or the network is back: retries now, or sees whether the socket has died meanwhile. */
  wake() {
    if (this.#phase === "reconnecting" && this.#retryTimer) this.connect();
    else this.#ping(ANSWER_WITHIN_AFTER_WAKE_MS);
  }

  /** The network is said to be gone: unless the socket is heard soon, it has died. */
  offline() {
    if (this.#phase !== "open") return;
    this.#ping(ANSWER_WITHIN_AFTER_WAKE_MS);
    this.#report("unsure");
  }

  #openSocket() {
    const { url, WebSocket = /** @type {SocketClass} */ (globalThis.WebSocket) } = this.#options;
    const socket = new WebSocket(url, [SUBPROTOCOL]);
    this.#socket = socket;
    this.#openedAt = Infinity;
    this.#answerBy = Date.now() + ANSWER_WITHIN_MS;
    socket.onopen = () => this.#opened();
    socket.onmessage = ({ data }) => this.#received(data);
    socket.onclose = ({ code }) => this.#closed(code);
    // A close follows every error. Of `ws`, an error that nobody listens to would end the process.
    socket.onerror = () => {};
  }

  #opened() {
    if (this.#tokens) this.authenticate(this.#tokens);
    // Its pong shows that the server really took the socket.
    this.#ping(ANSWER_WITHIN_MS);
    this.#report("open");
    this.#options.onOpen();
  }

  /** @param {string} data */
  #received(data) {
    const event = eventIn(data);
    if (!event) return this.#closed(BROKEN);
    this.#heardAt = Date.now();
    this.#openedAt = Math.min(this.#openedAt, this.#heardAt);
    this.#answerBy = null;
    this.#tokenRefused = false;
    this.#restarts = false;
    if (this.#phase === "unsure") this.#report("open");
    if (event.type !== "pong") this.#options.onEvent(event, data.length);
  }

  /** @param {number} code */
  #closed(code) {
    if (Date.now() - this.#openedAt > SETTLED_AFTER_MS) this.#attempt = 0;
    this.#abandon();
    this.#restarts ||= code === RESTART;
    if (code === TOKEN_REFUSED) return this.#signInAgain();
    if (!REFUSALS.has(code)) return this.#comeBack();
    if (code === TOO_MANY) this.#retryIn(TOO_MANY_WAIT_MS);
    this.#report("refused", code);
  }

  /** Once with renewed tokens; if the server doesn't take those either, the next would do no better. */
  #signInAgain() {
    if (this.#tokenRefused) return this.#report("signed_out", TOKEN_REFUSED);
    this.#tokenRefused = true;
    this.connect();
  }

  #comeBack() {
    const most = this.#restarts ? LONGEST_DELAY_OF_RESTART_MS : LONGEST_DELAY_MS;
    const longest = Math.min(most, FIRST_DELAY_MS * 2 ** this.#attempt);
    this.#attempt += 1;
    this.#retryIn(longest);
    this.#report("reconnecting", this.#restartCode);
  }

  get #restartCode() {
    return this.#restarts ? RESTART : null;
  }

  /**
   * Never all clients at the same moment, after a server has turned them all away.
   *
   * @param {number} longest
   */
  #retryIn(longest) {
    this.#retryTimer = setTimeout(() => this.connect(), longest * (0.5 + Math.random() / 2));
  }

  /** Lets go of the socket without waiting for its close, which may take minutes on a dead network. */
  #abandon() {
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
    this.#connecting = null;
    this.#answerBy = null;
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  /** @param {number} limit */
  #ping(limit) {
    if (this.send({ type: "ping" })) this.#answerBy = Math.min(this.#answerBy ?? Infinity, Date.now() + limit);
  }

  #look() {
    const now = Date.now();
    if (this.#answerBy !== null) {
      if (now > this.#answerBy) this.#closed(BROKEN);
    } else if (now - this.#heardAt > PING_AFTER_MS) {
      this.#ping(ANSWER_WITHIN_MS);
    }
  }

  /**
   * @param {ConnectionState["phase"]} phase
   * @param {number | null} code
   */
  #report(phase, code = null) {
    this.#phase = phase;
    this.#options.onState({ phase, code });
  }
}

/**
 * The event in a message; null if it is none, and its sender no such server.
 *
 * @param {string} data
 * @returns {ServerEvent | null}
 */
function eventIn(data) {
  try {
    const event = parseExactly(data);
    return typeof event?.type === "string" ? event : null;
  } catch {
    return null;
  }
}
