/**
 * The page's end of a frame: JSON-RPC 2.0 over postMessage, in the dialect of MCP Apps (2026-01-26).
 *
 * Whatever a frame sends is copied as JSON before it is looked at, and ends as an answer or is left alone. A frame is
 * told nothing before it has said that it listens. One that sends too much, or becomes another document, is ended.
 */

const BURST = 200;
const PER_S = 50;
/** Characters of a message as JSON. */
const LONGEST = 1_000_000;
const MOST_PENDING = 20;
const MOST_HELD = 200;

const NO_METHOD = -32601;
const WRONG = -32602;
const FAILED = -32603;

/** What a handler refuses with: the frame is told its words. */
export class Refused extends Error {
  constructor(content, code = WRONG) {
    super(content);
    this.code = code;
  }
}

export class FrameHost {
  #frame;
  #given;
  #held = [];
  #listens = false;
  #isShown = false;
  #pending = 0;
  #left = BURST;
  #at = performance.now();
  #heard = (event) => this.#received(event);

  /**
   * `given` has the `html` to show; `requests` and `notifications`, which map methods to what is done with their
   * parameters; `onListening()`, called when the frame says that it listens; and `onEnd(why)`, called with `flood` or
   * `left` when it has been ended.
   */
  constructor(frame, given) {
    this.#frame = frame;
    this.#given = given;
    addEventListener("message", this.#heard);
  }

  close() {
    removeEventListener("message", this.#heard);
    this.#held = [];
    this.#pending = Infinity;
  }

  /** Tells the frame, or keeps it until the frame listens. */
  notify(method, params) {
    if (this.#listens) this.#post({ method, params });
    else if (this.#held.length < MOST_HELD) this.#held.push({ method, params });
  }

  /** A frame without an origin of its own can't be named: what is sent goes to whatever document is in it. */
  #post(message) {
    this.#frame.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*");
  }

  #received({ source, origin, data }) {
    if (source !== this.#frame.contentWindow || origin !== "null") return;
    if (!this.#mayGoOn()) return this.#end("flood");
    const message = plain(data);
    if (message?.jsonrpc !== "2.0" || typeof message.method !== "string") return;
    const params = isObject(message.params) ? message.params : {};
    if (isId(message.id)) this.#answer(message.id, message.method, params);
    else this.#notified(message.method, params);
  }

  #mayGoOn() {
    const now = performance.now();
    this.#left = Math.min(BURST, this.#left + ((now - this.#at) / 1_000) * PER_S) - 1;
    this.#at = now;
    return this.#left >= 0;
  }

  #end(why) {
    this.close();
    this.#given.onEnd(why);
  }

  #notified(method, params) {
    if (method === "ui/notifications/sandbox-proxy-ready") {
      // It has been one document, and would be another.
      if (this.#isShown) return this.#end("left");
      this.#isShown = true;
      this.#post({ method: "ui/notifications/sandbox-resource-ready", params: { html: this.#given.html } });
    } else if (method === "ui/notifications/initialized") {
      this.#listens = true;
      this.#given.onListening();
      for (const message of this.#held.splice(0)) this.#post(message);
    } else this.#given.notifications.get(method)?.(params);
  }

  async #answer(id, method, params) {
    this.#pending += 1;
    try {
      const handle = this.#given.requests.get(method);
      if (!handle) throw new Refused("There is no such method here.", NO_METHOD);
      if (this.#pending > MOST_PENDING) throw new Refused("Too many calls at once.", FAILED);
      this.#post({ id, result: await handle(params) });
    } catch (error) {
      const { code, message } = error instanceof Refused ? error : { code: FAILED, message: "internal error" };
      this.#post({ id, error: { code, message } });
    } finally {
      this.#pending -= 1;
    }
  }
}

/** The message as JSON has it; null where it can't be written so, or is too long. */
function plain(data) {
  try {
    const text = JSON.stringify(data);
    return text.length <= LONGEST ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const isId = (id) => typeof id === "string" || Number.isFinite(id);
