/** How a call of the client fails. */

/** @import { ErrorDetail, FrameRefused } from "@agentic-backend/client/protocol" */

/** The server has refused a frame: an ask, a decision, or to follow something. */
export class Refused extends Error {
  /** @param {FrameRefused} refusal */
  constructor({ code, content, retryable, request_id: requestId, retry_after_s: retryAfterS, detail }) {
    super(content);
    this.name = "Refused";
    /** One of the protocol's error codes. */
    this.code = code;
    /** Whether the same may succeed later. */
    this.retryable = retryable;
    /** When it may, in seconds from now; null if the server doesn't say. @type {number | null} */
    this.retryAfterS = retryAfterS ?? null;
    /** Finds the refusal in the server's log. */
    this.requestId = requestId;
    /** For the agent's author. @type {ErrorDetail | null} */
    this.detail = detail ?? null;
  }
}

/** What came is not of the protocol: an event of the server's, or an answer that something before it gave. */
export class Unreadable extends Error {
  /** @param {string} type  of the event, or the status of the answer */
  constructor(type) {
    super(`the server sent a ${type} that can't be read`);
    this.name = "Unreadable";
  }
}

/** The connection is gone and doesn't come back by itself. What runs on the server goes on. */
export class Disconnected extends Error {
  /**
   * @param {string} phase  of the connection: `signed_out`, `refused`, `unreachable` or `closed`
   * @param {number | null} code  the server's close code, or the HTTP status with which it has refused the socket; null
   *   where it was neither
   * @param {string | null} [why]  what was in the way
   */
  constructor(phase, code, why = null) {
    const reason = why === null ? "" : `: ${why}`;
    super(`the connection is ${phase.replace("_", " ")}${reason}${code === null ? "" : ` (${code})`}`);
    this.name = "Disconnected";
    this.phase = phase;
    this.code = code;
  }
}
