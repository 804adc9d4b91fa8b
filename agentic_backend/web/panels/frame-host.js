/**
 * The page's end of a frame: JSON-RPC 2.0 over postMessage, in the dialect of MCP Apps (2026-01-26), and a port by which
 * the frame's own document, before it becomes another, tells what a person does in it.
 *
 * Whatever a frame sends is copied as JSON before it is looked at, but for the file of a call, and ends as an answer or is
 * left alone. A frame is told nothing before it has said that it listens. One that sends too much, or becomes another
 * document, is ended.
 */

import { writtenJson } from "../client/exact-json.js";
import { isObject, plainJson } from "./plain-json.js";

const BURST = 200;
const PER_S = 50;
/** So many values cost as much as a message. */
const STEPS = 1_000;
const MOST_PENDING = 20;
const MOST_HELD = 200;
/** How long what a person has done counts for what the frame asks then, in milliseconds. */
const COUNTS_MS = 5_000;
/** The click of a key that presses a button comes so long after the key. */
const TOGETHER_MS = 1_000;

/** How long a frame may take to say that its document is still there, in milliseconds. */
const GONE_MS = 3_000;

/** How long a frame may take to end what it does, in milliseconds. */
const LEAVE_MS = 500;
/** The id of the page's one request. */
const LEAVING = "leaving";

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

/** An answer with Files, which are no JSON; all else in it is. */
export class AsItIs {
  constructor(result) {
    this.result = result;
  }
}

export class FrameHost {
  #frame;
  #given;
  #port = null;
  #held = [];
  #listens = false;
  #pending = 0;
  #left = BURST;
  #at = performance.now();
  #begunAt = -Infinity;
  #begunBy = null;
  /** When what a key has begun was taken. */
  #keyTakenAt = -Infinity;
  #heard = (event) => this.#received(event);
  #loaded = () => this.#askWhetherThere();
  #gone = null;
  /** Who waits for the answers to what is asked by the port, in order. */
  #answered = [];
  /** Called once the frame may be taken away; null before it is about to be. */
  #leave = null;

  /**
   * `given` has the `html` to show; `requests` and `notifications`, which map methods to what is done with their
   * parameters, and requests with the Blob that came as the `upload` of a call, or null; `onReady(csp)`, called with the hosts that the frame allows; `onListening()`, called when the frame says
   * that it listens; `onKey(key)`, called with a key that its document has left alone; `onEnter()`, called when a person
   * comes into it or leaves it; and `onEnd(why)`, called with `flood` or `left` when it has been ended.
   */
  constructor(frame, given) {
    this.#frame = frame;
    this.#given = given;
    addEventListener("message", this.#heard);
    frame.addEventListener("load", this.#loaded);
  }

  close() {
    removeEventListener("message", this.#heard);
    this.#frame.removeEventListener("load", this.#loaded);
    clearTimeout(this.#gone);
    this.#port?.close();
    this.#held = [];
    this.#pending = Infinity;
  }

  /**
   * Tells the frame that it is about to be taken away, and hears nothing else of it; resolves when it has answered, or
   * after LEAVE_MS. Null for a frame that doesn't listen.
   */
  leave() {
    if (!this.#listens || this.#pending === Infinity) return null;
    return new Promise((resolve) => {
      this.#leave = resolve;
      setTimeout(resolve, LEAVE_MS);
      this.#post({ id: LEAVING, method: "ui/resource-teardown", params: {} });
    });
  }

  /** Tells the frame, or keeps it until the frame listens. */
  notify(method, params) {
    if (this.#listens) this.#post({ method, params });
    else if (this.#held.length < MOST_HELD) this.#held.push({ method, params });
  }

  /** Whether a person has done something in the frame within this time, which counts once. */
  async takeBeginning(withinMs = COUNTS_MS) {
    const isBegun = () => performance.now() - this.#begunAt < withinMs;
    // The word of it may be on its way, and what comes by the port comes in order.
    if (!isBegun()) await this.#heardAll();
    const taken = isBegun();
    this.#begunAt = -Infinity;
    if (taken && this.#begunBy === "keydown") this.#keyTakenAt = performance.now();
    return taken;
  }

  /**
   * A frame without an origin of its own can't be named: what is sent goes to whatever document is in it. The values
   * are JSON's: exact numbers are values of the page's own, which can't be sent.
   */
  #post(message, ports = []) {
    this.#send(JSON.parse(writtenJson(message)), ports);
  }

  #send(message, ports = []) {
    this.#frame.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*", ports);
  }

  #received({ source, origin, data }) {
    if (source !== this.#frame.contentWindow || origin !== "null") return;
    const upload = takenUpload(data);
    const message = plainJson(data);
    if (!this.#mayGoOn(1 + (message?.steps ?? STEPS) / STEPS)) return this.#leave ? this.#leave() : this.#end("flood");
    const { jsonrpc, id, method, params } = isObject(message?.value) ? message.value : {};
    if (this.#leave) {
      if (jsonrpc === "2.0" && id === LEAVING && method === undefined) this.#leave();
      return;
    }
    if (jsonrpc !== "2.0" || typeof method !== "string") return;
    const given = isObject(params) ? params : {};
    if (isId(id)) this.#answer(id, method, given, upload);
    else this.#notified(method, given);
  }

  #mayGoOn(cost) {
    const now = performance.now();
    this.#left = Math.min(BURST, this.#left + ((now - this.#at) / 1_000) * PER_S) - cost;
    this.#at = now;
    return this.#left >= 0;
  }

  #end(why) {
    this.close();
    this.#given.onEnd(why);
  }

  #notified(method, params) {
    if (method === "ui/notifications/sandbox-proxy-ready") this.#begin(params);
    else if (method === "ui/notifications/initialized") {
      this.#listens = true;
      this.#given.onListening();
      for (const message of this.#held.splice(0)) this.#post(message);
    } else this.#given.notifications.get(method)?.(params);
  }

  #begin({ csp }) {
    // It has been one document, and would be another.
    if (this.#port) return this.#end("left");
    // Nothing but the frame's own document has been in it.
    this.#given.onReady(isObject(csp) ? csp : {});
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.onmessage = ({ data }) => this.#done(data);
    const params = { html: this.#given.html };
    this.#post({ method: "ui/notifications/sandbox-resource-ready", params }, [port2]);
  }

  /** Resolves when all that the frame's document has told until now is here; a frame that hangs tells nothing more. */
  #heardAll() {
    if (!this.#port) return undefined;
    this.#port.postMessage(null);
    return new Promise((resolve) => {
      this.#answered.push(resolve);
      setTimeout(resolve, GONE_MS);
    });
  }

  /** A document has been loaded: that of the panel, or another, which doesn't have the port. */
  #askWhetherThere() {
    if (!this.#port) return;
    clearTimeout(this.#gone);
    const gone = setTimeout(() => this.#end("left"), GONE_MS);
    this.#gone = gone;
    // The answer of the document before may come after the next one has been loaded: it tells nothing of that.
    this.#answered.push(() => clearTimeout(gone));
    this.#port.postMessage(null);
  }

  /** A person has done something in the frame. */
  #done({ type, ...key }) {
    if (type === "there") return this.#answered.shift()?.();
    if (type === "left") return this.#given.onKey(key);
    // Other keys come to where the focus is, however it has come there.
    if (type !== "keydown" || key.key === "Tab") this.#given.onEnter();
    const now = performance.now();
    const isOfKey = type === "click" && now - this.#keyTakenAt < TOGETHER_MS;
    if ((type === "click" && !isOfKey) || (type === "keydown" && !MOVES.has(key.key))) {
      this.#begunAt = now;
      this.#begunBy = type;
    }
  }

  async #answer(id, method, params, upload) {
    this.#pending += 1;
    try {
      const handle = this.#given.requests.get(method);
      if (!handle) throw new Refused("There is no such method here.", NO_METHOD);
      if (this.#pending > MOST_PENDING) throw new Refused("Too many calls at once.", FAILED);
      const result = await handle(params, upload);
      if (result instanceof AsItIs) this.#send({ id, result: result.result });
      else this.#post({ id, result });
    } catch (error) {
      const { code, message } = error instanceof Refused ? error : { code: FAILED, message: "internal error" };
      this.#post({ id, error: { code, message } });
    } finally {
      this.#pending -= 1;
    }
  }
}

/**
 * The Blob in a call's arguments, which is taken out of them; null if there is none. What was sent is a copy that the
 * browser has made, of plain objects: nothing runs when it is read, and a Blob is one.
 */
function takenUpload(data) {
  const args = data?.method === "tools/call" ? data.params?.arguments : null;
  const upload = args?.upload;
  if (!(upload instanceof Blob)) return null;
  delete args.upload;
  return upload;
}

/** Keys with which a person moves about, and begins nothing. */
const MOVES = new Set(["Tab", "Escape", "Shift", "Control", "Alt", "Meta"]);

const isId = (id) => typeof id === "string" || Number.isFinite(id);
