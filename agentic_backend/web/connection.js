/**
 * The page's one WebSocket: opens it, notices when it is dead, and comes back with jittered backoff.
 *
 * It knows nothing of sessions. Whoever owns it gets `onOpen` for every new socket (follow and ask again there),
 * `onEvent` for every frame, and `onState` with `{phase, notice?}`; `phase` is one of `connecting`, `open`,
 * `reconnecting`, `signed_out` and `refused`. The last two are left only by `connect()`.
 */

import { parseExactly } from "./exact-json.js";

const SUBPROTOCOL = "chat.v2";
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

/** Close codes after which coming back at once would only repeat the refusal. */
const REFUSALS = {
  1002: "The server doesn't understand this page. Reload it.",
  1003: "The server doesn't understand this page. Reload it.",
  1008: "The server refused the connection.",
  1009: "Your message was too large to send. Shorten it, then connect again.",
  4403: "You don't have access to this server.",
  4429: "Too many connections are open. Close other tabs; this one tries again in a minute.",
};
export const TOO_LARGE = 1009;
const TOKEN_REFUSED = 4401;
const TOO_MANY = 4429;
const RESTART = 1012;
const BROKEN = 1006;

export class Connection {
  #socket = null;
  #phase = "connecting";
  #attempt = 0;
  #tokens = null;
  /** The server has refused a token, and not taken another since. */
  #tokenRefused = false;
  /** The server has said that it goes, and no other has been heard since. */
  #restarts = false;
  /** Another object for every call of `connect`, of which the last one counts. */
  #connecting = null;
  #retryTimer = null;
  #openedAt = Infinity;
  #heardAt = 0;
  /** Until when something must be received for the socket not to be given up, or null. */
  #answerBy = null;

  /** `signIn` gives the tokens; a newer one is handed over by `authenticate`. */
  constructor({ url, signIn, onOpen, onEvent, onState, onRefused }) {
    Object.assign(this, { url, signIn, onOpen, onEvent, onState, onRefused });
    setInterval(() => this.#look(), LOOK_EVERY_MS);
    window.addEventListener("online", () => this.#wake());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#wake());
  }

  /** Opens a socket now, whatever the state; one that is open is replaced. */
  async connect() {
    this.#abandon();
    this.#report(this.#attempt ? "reconnecting" : "connecting", this.#restartNotice);
    const connecting = {};
    this.#connecting = connecting;
    try {
      this.#tokens = await this.signIn.tokens({ renew: this.#tokenRefused });
    } catch {
      if (connecting === this.#connecting) this.#comeBack();
      return;
    }
    if (connecting === this.#connecting) this.#openSocket();
  }

  /** Takes the user's newer tokens, and shows them to the server if there is a socket. */
  authenticate(tokens) {
    this.#tokens = tokens;
    this.send({ type: "authenticate", ...tokens });
  }

  #openSocket() {
    const socket = new WebSocket(this.url, [SUBPROTOCOL]);
    this.#socket = socket;
    this.#openedAt = Infinity;
    this.#answerBy = Date.now() + ANSWER_WITHIN_MS;
    socket.onopen = () => this.#opened();
    socket.onmessage = ({ data }) => this.#received(data);
    socket.onclose = ({ code }) => this.#closed(code);
  }

  /** Sends a frame; false if there is no open socket to carry it. */
  send(frame) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  #opened() {
    if (this.#tokens) this.authenticate(this.#tokens);
    // Its pong shows that the server really took the socket.
    this.#ping(ANSWER_WITHIN_MS);
    this.#report("open");
    this.onOpen();
  }

  #received(data) {
    this.#heardAt = Date.now();
    this.#openedAt = Math.min(this.#openedAt, this.#heardAt);
    this.#answerBy = null;
    this.#tokenRefused = false;
    this.#restarts = false;
    const event = parseExactly(data);
    if (event.type !== "pong") this.onEvent(event);
  }

  #closed(code) {
    if (Date.now() - this.#openedAt > SETTLED_AFTER_MS) this.#attempt = 0;
    this.#abandon();
    this.#restarts ||= code === RESTART;
    if (code === TOKEN_REFUSED) return this.#signInAgain();
    if (code in REFUSALS) {
      this.#report("refused", REFUSALS[code]);
      if (code === TOO_MANY) this.#retryIn(TOO_MANY_WAIT_MS);
      return this.onRefused(code);
    }
    this.#comeBack();
  }

  /** Once with a renewed token; if the server doesn't take that one either, the next would do no better. */
  #signInAgain() {
    if (!this.signIn.renewable) return this.#report("signed_out", "Your sign-in has ended. Please sign in again.");
    if (this.#tokenRefused) return this.#report("signed_out", "The server does not accept your sign-in.");
    this.#tokenRefused = true;
    this.connect();
  }

  #comeBack() {
    const most = this.#restarts ? LONGEST_DELAY_OF_RESTART_MS : LONGEST_DELAY_MS;
    const longest = Math.min(most, FIRST_DELAY_MS * 2 ** this.#attempt);
    this.#attempt += 1;
    this.#report("reconnecting", this.#restartNotice);
    this.#retryIn(longest);
  }

  get #restartNotice() {
    return this.#restarts ? "The server restarts. Reconnecting…" : null;
  }

  /** Never all pages at the same moment, after a server has turned them all away. */
  #retryIn(longest) {
    this.#retryTimer = setTimeout(() => this.connect(), longest * (0.5 + Math.random() / 2));
  }

  /** Lets go of the socket without waiting for its close, which may take minutes on a dead network. */
  #abandon() {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
    this.#connecting = null;
    this.#answerBy = null;
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

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

  /** The machine woke up or the network is back: retry now, or see whether the socket has died meanwhile. */
  #wake() {
    if (this.#phase === "reconnecting" && this.#retryTimer) this.connect();
    else this.#ping(ANSWER_WITHIN_AFTER_WAKE_MS);
  }

  #report(phase, notice = null) {
    this.#phase = phase;
    this.onState({ phase, notice });
  }
}
