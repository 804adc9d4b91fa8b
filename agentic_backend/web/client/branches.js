/** Forks sessions, so that a question may be asked anew, or differently, beside what was answered before. */

/** @import { Session } from "@agentic-backend/client/protocol" */
/** @import { CallOptions } from "./call.js" */

import { call } from "./call.js";

/**
 * Opens a branch of a session of the server at this address: it has the messages below `rank`, which is the first rank
 * of an exchange or the session's next one, and goes on on its own. Throws what `call` throws.
 *
 * @param {string | URL} server  as in `connect`
 * @param {string} sessionId
 * @param {number} rank
 * @param {CallOptions} [options]
 * @returns {Promise<Session>}
 */
export async function fork(server, sessionId, rank, options) {
  return (await call(server, "POST", `sessions/${encodeURIComponent(sessionId)}/fork`, options, { rank })).json();
}
