/**
 * One WebSocket to the server: opens it, notices when it is dead, and comes back with jittered backoff.
 *
 * It knows nothing of sessions. Whoever owns it gets `onOpen` for every new socket (follow and ask again there),
 * `onEvent` for every event, and `onState` when its phase changes. It comes back by itself from all phases but
 * `signed_out`, `refused`, `unreachable` and `closed`, which only `connect()` leaves; too many connections are `refused`
 * for a minute.
 */

/** @import { Authenticate, ClientFrame, ServerEvent } from "@agentic-backend/client/protocol" */

import { parseExactly, writtenJson } from "./exact-json.js";
import { serverUrl } from "./server-url.js";
import { timerOf } from "./timer.js";

/** @typedef {Omit<Authenticate, "type">} Tokens */

/**
 * @typedef {object} ConnectionState
 * @property {"connecting" | "open" | "unsure" | "reconnecting" | "signed_out" | "refused" | "unreachable" | "closed"} phase
 *   `unsure`: the network is said to be gone, and the socket has not been heard since; `unreachable`: its patience has
 *   ended
 * @property {number | null} code  why it is `signed_out`, `refused` or `unreachable`: the server's close code, or the HTTP
 *   status with which it has refused the socket; 1012 while a server that said that it restarts is not back; otherwise
 *   null
 * @property {string | null} why  what was last in the way, for people, where one of these three ends it
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
 * @property {((name: any, listener: (...told: any[]) => void) => unknown) | undefined} [on]  that of `ws`
 */

/**
 * What HTTP has answered instead of a socket.
 *
 * @typedef {object} HttpAnswer
 * @property {number} status
 * @property {string | null | undefined} retryAfter  the header
 * @property {string | null | undefined} location  the header
 */

/**
 * The third argument is that of `ws`; others take no notice of it.
 *
 * @typedef {new (url: string | URL, protocols: string[], options?: any) => Socket} SocketClass
 */

/**
 * @typedef {object} ConnectionOptions
 * @property {string | URL} url  see socketUrl
 * @property {((wanted: { renew: boolean }) => Promise<Tokens | null> | Tokens | null) | undefined} [tokens]  those to use, asked for
 *   at each connection; with `renew` the server has refused the last ones, and null says that there are no others.
 *   Where it rejects, the connection tries again later.
 * @property {SocketClass | undefined} [WebSocket]  for runtimes without a global one
 * @property {number | undefined} [patience]  how many seconds it tries to reach a server before it is `unreachable`; by
 *   default without end
 * @property {((signal: AbortSignal) => Promise<HttpAnswer | Error | null>) | undefined} [httpAnswer]  what HTTP answers
 *   where no socket opened, or how it fails; null where that says nothing. For classes of sockets that don't tell, as
 *   those of browsers.
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
const TOKENS_WITHIN_MS = 30_000;
/** How long the other end may take to answer a close. */
const CLOSE_WITHIN_MS = 1_000;

const BROKEN = 1006;
export const RESTART = 1012;
export const TOO_LARGE = 1009;
const TOKEN_REFUSED = 4401;
export const TOO_MANY = 4429;
/** Close codes after which coming back at once would only repeat the refusal. */
const REFUSALS = new Set([1002, 1003, 1008, TOO_LARGE, 4403, TOO_MANY]);
/** HTTP statuses of which that is true too. An unknown one may pass, as an unknown close code. */
const REFUSED_STATUSES = new Set([400, 403, 404, 405, 410, 426]);

const TOKEN_NOT_GIVEN = "The token function did not return in time.";
const REFUSES = "The server refuses the connection.";
const NO_ANSWER = "No server answers.";
const SILENT = "The connection is open, but carries nothing.";

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
  /** Ends what is awaited for a socket. @type {AbortController | null} */
  #connecting = null;
  /** Who waits for the answers to the pings of this socket, in order. @type {(() => void)[]} */
  #pongs = [];
  /** @type {ReturnType<typeof setTimeout> | null} */
  #retryTimer = null;
  /** @type {ReturnType<typeof setInterval> | null} */
  #lookTimer = null;
  /** Runs while no server has answered on an open socket. @type {ReturnType<typeof setTimeout> | null} */
  #patienceTimer = null;
  /** What was in the way last, since a server has answered. @type {{ why: string, code: number | null } | null} */
  #trouble = null;
  /** What is said where it has not come to that. */
  #doing = NO_ANSWER;
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
    this.#startPatience();
    const connecting = new AbortController();
    this.#connecting = connecting;
    this.#doing = TOKEN_NOT_GIVEN;
    this.#report(this.#attempt ? "reconnecting" : "connecting", this.#restartCode);
    const renew = this.#tokenRefused;
    let tokens;
    try {
      tokens = (await inTime(this.#options.tokens?.({ renew }), connecting.signal)) ?? null;
    } catch (error) {
      if (connecting.signal.aborted) return;
      this.#trouble = { why: error === LATE ? TOKEN_NOT_GIVEN : `The token function failed: ${nameOf(error)}${systemWords(error)}.`, code: null };
      return this.#comeBack();
    }
    if (connecting.signal.aborted) return;
    this.#tokens = tokens;
    if (tokens || !renew) return this.#openSocket();
    this.#tokenRefused = false;
    this.#end("signed_out", this.#trouble?.code ?? TOKEN_REFUSED, this.#trouble?.why);
  }

  /** Closes the socket, and doesn't come back. */
  close() {
    this.#abandon();
    this.#end("closed");
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

  /**
   * Sends a frame, and tells when this socket has answered a ping after it: frames are answered in their order.
   *
   * @param {ClientFrame} frame
   * @param {() => void} answered
   */
  request(frame, answered) {
    return this.send(frame) && this.#sendPing(answered);
  }

  /** Lets go of an open socket: another one, perhaps of another server, may do better. */
  reconnect() {
    if (this.#socket?.readyState === OPEN) this.connect();
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
    const socket = new WebSocket(url, [SUBPROTOCOL], { closeTimeout: CLOSE_WITHIN_MS });
    this.#socket = socket;
    this.#pongs = [];
    this.#openedAt = Infinity;
    this.#answerBy = Date.now() + ANSWER_WITHIN_MS;
    this.#doing = NO_ANSWER;
    socket.onopen = () => this.#opened(socket);
    socket.onmessage = ({ data }) => this.#received(data);
    // Node's own class tells an error and no close; others tell both.
    socket.onclose = socket.onerror = ({ error }) => this.#notOpened(socket, error);
    socket.on?.("unexpected-response", (request, { statusCode: status, headers }) => {
      request.destroy();
      if (socket !== this.#socket) return;
      this.#answered({ status, retryAfter: headers["retry-after"], location: headers.location });
    });
  }

  /**
   * Not every class of sockets tells why: those of browsers must not.
   *
   * @param {Socket} socket
   * @param {unknown} failure  Node's, if there is one
   */
  async #notOpened(socket, failure) {
    forget(socket);
    const connecting = this.#connecting;
    const answer = socket.on || !connecting ? null : await this.#options.httpAnswer?.(connecting.signal);
    if (socket !== this.#socket) return;
    if (answer && "status" in answer) this.#answered(answer);
    else this.#closed(BROKEN, `No server answers${systemWords(failure) || systemWords(answer)}.`);
  }

  /** @param {HttpAnswer} answer */
  #answered({ status, retryAfter, location }) {
    this.#abandon();
    if (status === 401) return this.#signInAgain(status);
    if (status < 400 || REFUSED_STATUSES.has(status)) {
      const to = status >= 300 && status < 400 ? redirected(location ?? "", this.#options.url) : null;
      return this.#end("refused", status, to ? `The server redirects to ${to}.` : REFUSES);
    }
    this.#trouble = { why: REFUSES, code: status };
    this.#comeBack(secondsIn(retryAfter) * 1_000, status === 429 ? TOO_MANY_WAIT_MS : 0);
  }

  /** @param {Socket} socket */
  #opened(socket) {
    // A close follows every error from now on.
    socket.onerror = () => {};
    socket.onclose = ({ code }) => this.#closed(code);
    if (this.#tokens) this.authenticate(this.#tokens);
    this.#doing = SILENT;
    // Its pong shows that the server really took the socket.
    this.#ping(ANSWER_WITHIN_MS);
    this.#report("open");
    this.#options.onOpen();
  }

  /** @param {string} data */
  #received(data) {
    const event = eventIn(data);
    if (!event) return this.#closed(BROKEN, "The server sends what is not of the protocol.");
    this.#stopPatience();
    this.#heardAt = Date.now();
    this.#openedAt = Math.min(this.#openedAt, this.#heardAt);
    this.#answerBy = null;
    this.#tokenRefused = false;
    this.#restarts = false;
    if (this.#phase === "unsure") this.#report("open");
    if (event.type === "pong") this.#pongs.shift()?.();
    else this.#options.onEvent(event, data.length);
  }

  /**
   * @param {number} code
   * @param {string | null} [why]  if it was not the server
   */
  #closed(code, why = null) {
    this.#trouble = why ? { why, code: null } : { why: "The server has closed the connection.", code };
    if (Date.now() - this.#openedAt > SETTLED_AFTER_MS) this.#attempt = 0;
    this.#abandon();
    this.#restarts ||= code === RESTART;
    if (code === TOKEN_REFUSED) return this.#signInAgain(code);
    if (!REFUSALS.has(code)) return this.#comeBack();
    if (code !== TOO_MANY) return this.#end("refused", code, this.#trouble.why);
    this.#retryIn(TOO_MANY_WAIT_MS);
    this.#report("refused", code, this.#trouble.why);
  }

  /**
   * Once with renewed tokens; if the server doesn't take those either, the next would do no better.
   *
   * @param {number} code
   */
  #signInAgain(code) {
    this.#trouble = { why: "The server does not take the token.", code };
    if (this.#tokenRefused) return this.#end("signed_out", code, this.#trouble.why);
    this.#tokenRefused = true;
    this.connect();
  }

  /**
   * @param {number} [notBefore]  when the server wants the next one
   * @param {number} [least]  of the longest delay
   */
  #comeBack(notBefore = 0, least = 0) {
    const most = this.#restarts ? LONGEST_DELAY_OF_RESTART_MS : LONGEST_DELAY_MS;
    const longest = Math.max(least, Math.min(most, FIRST_DELAY_MS * 2 ** this.#attempt));
    this.#attempt += 1;
    this.#retryIn(longest, notBefore);
    this.#report("reconnecting", this.#restartCode);
  }

  get #restartCode() {
    return this.#restarts ? RESTART : null;
  }

  /**
   * Never all clients at the same moment, after a server has turned them all away.
   *
   * @param {number} longest
   * @param {number} [notBefore]  when the server wants the next one
   */
  #retryIn(longest, notBefore = 0) {
    this.#startPatience();
    const delay = notBefore + longest * (0.5 + Math.random() / 2);
    this.#retryTimer = timerOf(delay / 1_000, () => this.connect());
  }

  #startPatience() {
    this.#patienceTimer ??= timerOf(this.#options.patience ?? Infinity, () => {
      const { why, code } = this.#trouble ?? { why: this.#doing, code: null };
      this.#abandon();
      this.#attempt = 0;
      this.#end("unreachable", code, why);
    });
  }

  #stopPatience() {
    if (this.#patienceTimer !== null) clearTimeout(this.#patienceTimer);
    this.#patienceTimer = null;
    this.#trouble = null;
  }

  /**
   * Comes to a phase that only `connect()` leaves.
   *
   * @param {ConnectionState["phase"]} phase
   * @param {number | null} [code]
   * @param {string | null} [why]
   */
  #end(phase, code = null, why = null) {
    this.#stopPatience();
    // A program that waits for nothing else ends.
    if (this.#lookTimer !== null) clearInterval(this.#lookTimer);
    this.#lookTimer = null;
    this.#report(phase, code, why);
  }

  /** Lets go of the socket without waiting for its close, which may take minutes on a dead network. */
  #abandon() {
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
    this.#connecting?.abort();
    this.#connecting = null;
    this.#answerBy = null;
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    forget(socket);
    socket.close();
  }

  /** @param {number} limit */
  #ping(limit) {
    if (this.#sendPing()) this.#answerBy = Math.min(this.#answerBy ?? Infinity, Date.now() + limit);
  }

  /** @param {() => void} [answered] */
  #sendPing(answered = () => {}) {
    const isSent = this.send({ type: "ping" });
    if (isSent) this.#pongs.push(answered);
    return isSent;
  }

  #look() {
    const now = Date.now();
    if (this.#answerBy !== null) {
      if (now > this.#answerBy) this.#closed(BROKEN, this.#doing);
    } else if (now - this.#heardAt > PING_AFTER_MS) {
      this.#ping(ANSWER_WITHIN_MS);
    }
  }

  /**
   * @param {ConnectionState["phase"]} phase
   * @param {number | null} code
   * @param {string | null} why
   */
  #report(phase, code = null, why = null) {
    this.#phase = phase;
    this.#options.onState({ phase, code, why });
  }
}

/** @param {Socket} socket */
function forget(socket) {
  socket.onopen = socket.onmessage = socket.onclose = null;
  // Of `ws`, an error that nobody listens to would end the process.
  socket.onerror = () => {};
}

const LATE = new Error("late");

/**
 * What a function of the user's gives, which must not take forever, nor keep alive a program that waits for it no more.
 *
 * @template T
 * @param {Promise<T> | T} given
 * @param {AbortSignal} signal
 */
async function inTime(given, signal) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(LATE), TOKENS_WITHIN_MS);
    signal.addEventListener("abort", () => reject(LATE));
  });
  try {
    return await /** @type {Promise<T>} */ (Promise.race([given, late]));
  } finally {
    clearTimeout(timer);
  }
}

/** Its message may be secret. @param {unknown} error */
const nameOf = (error) => (error instanceof Error ? error.name : typeof error);

const MOST_CAUSES = 10;
/** Without digits, so that no key is taken for one. */
const SYSTEM_CODE = /^[A-Z][A-Z_]{2,60}$/;

/**
 * The code of the system's error behind an error, such as ": ECONNREFUSED"; empty where nobody tells, as in a browser.
 *
 * @param {unknown} error
 */
function systemWords(error) {
  for (let depth = 0; error instanceof Error && depth < MOST_CAUSES; depth++) {
    const { code, cause, errors } = /** @type {any} */ (error);
    if (typeof code === "string" && SYSTEM_CODE.test(code)) return `: ${code}`;
    error = cause ?? errors?.[0];
  }
  return "";
}

/**
 * Where a redirect leads, without its query, which may hold secrets; null if that is no address.
 *
 * @param {string} location
 * @param {string | URL} socket  its URL
 */
function redirected(location, socket) {
  try {
    const { origin, pathname } = new URL(location, `${socket}`.replace(/^ws/, "http"));
    return location && `${origin}${pathname}`;
  } catch {
    return null;
  }
}

/**
 * The seconds from now that a `Retry-After` names; 0 if it can't be read.
 *
 * @param {string | null | undefined} retryAfter
 */
function secondsIn(retryAfter) {
  if (!retryAfter) return 0;
  const seconds = /^\d+$/.test(retryAfter) ? Number(retryAfter) : (Date.parse(retryAfter) - Date.now()) / 1_000;
  // A number without end would never let it come back.
  return seconds > 0 ? Math.min(seconds, 86_400) : 0;
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
