/**
 * The page's one WebSocket: opens it, notices when it is dead, and comes back with jittered backoff.
 *
 * It knows nothing of sessions. Whoever owns it gets `onOpen` for every new socket (follow and ask again there),
 * `onEvent` for every frame, and `onState` with `{phase, notice?}`; `phase` is one of `connecting`, `open`,
 * `reconnecting`, `signed_out` and `refused`. The last two are left only by `connect()`.
 */

const SUBPROTOCOL = "chat.v2";
const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 30_000;
const PING_EVERY_MS = 20_000;
const SILENCE_LIMIT_MS = 10_000;
const WAKE_LIMIT_MS = 4_000;

/** Close codes after which coming back by itself would only repeat the refusal. */
const REFUSALS = {
  1002: "The server doesn't understand this page. Reload it.",
  1003: "The server doesn't understand this page. Reload it.",
  1008: "The server refused the connection.",
  1009: "Your message was too large to send. Shorten it, then connect again.",
  4403: "You don't have access to this server.",
  4429: "Too many connections are open. Close other tabs or wait a moment, then connect again.",
};
export const TOO_LARGE = 1009;
const TOKEN_REFUSED = 4401;

export class Connection {
  #socket = null;
  #attempt = 0;
  #tokens = null;
  /** The server has refused a token, and not taken another since. */
  #tokenRefused = false;
  /** Another object for every call of `connect`, of which the last one counts. */
  #connecting = null;
  #retryTimer = null;
  #wakeTimer = null;
  /** When the oldest thing was sent that nothing has answered yet, or null. */
  #silentSince = null;

  /** `signIn` gives the tokens; a newer one is handed over by `authenticate`. */
  constructor({ url, signIn, onOpen, onEvent, onState, onRefused }) {
    Object.assign(this, { url, signIn, onOpen, onEvent, onState, onRefused });
    setInterval(() => this.#beat(), PING_EVERY_MS);
    window.addEventListener("online", () => this.#wake());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#wake());
  }

  /** Opens a socket now, whatever the state; one that is open is replaced. */
  async connect() {
    this.#abandon();
    this.#report(this.#attempt ? "reconnecting" : "connecting");
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
    this.#silentSince = Date.now();
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
    // Its pong shows that the server really took the socket: only then are failed attempts forgotten.
    this.#ping();
    this.#report("open");
    this.onOpen();
  }

  #received(data) {
    this.#silentSince = null;
    this.#attempt = 0;
    this.#tokenRefused = false;
    const event = JSON.parse(data);
    if (event.type !== "pong") this.onEvent(event);
  }

  #closed(code) {
    this.#abandon();
    if (code === TOKEN_REFUSED) return this.#signInAgain();
    if (code in REFUSALS) {
      this.#report("refused", REFUSALS[code]);
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
    const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#attempt);
    this.#attempt += 1;
    this.#report("reconnecting");
    this.#retryTimer = setTimeout(() => this.connect(), longest * (0.5 + Math.random() / 2));
  }

  /** Lets go of the socket without waiting for its close, which may take minutes on a dead network. */
  #abandon() {
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#wakeTimer);
    this.#retryTimer = null;
    this.#connecting = null;
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #ping() {
    if (this.send({ type: "ping" })) this.#silentSince ??= Date.now();
  }

  #beat() {
    this.#giveUpAfter(SILENCE_LIMIT_MS);
    this.#ping();
  }

  /** The machine woke up or the network is back: retry now, or check a socket that may be dead. */
  #wake() {
    if (this.#retryTimer) return this.connect();
    this.#ping();
    clearTimeout(this.#wakeTimer);
    this.#wakeTimer = setTimeout(() => this.#giveUpAfter(WAKE_LIMIT_MS), WAKE_LIMIT_MS + 100);
  }

  #giveUpAfter(silence) {
    if (this.#socket && this.#silentSince && Date.now() - this.#silentSince > silence) this.#closed(1006);
  }

  #report(phase, notice = null) {
    this.onState({ phase, notice });
  }
}
