/** Forks sessions, so that a question may be asked anew, or differently, beside what was answered before. */

/** @import { FrameRefused, Session } from "@agentic-backend/client/protocol" */
/** @import { Tokens } from "./connection.js" */

import { Refused } from "./errors.js";
import { serverUrl } from "./server-url.js";

/**
 * Opens a branch of a session of the server at this address: it has the messages below `rank`, which is the first rank
 * of an exchange or the session's next one, and goes on on its own. Throws Refused if the server does not take it, and
 * what `fetch` throws.
 *
 * @param {string | URL} server  as in `connect`
 * @param {string} sessionId
 * @param {number} rank
 * @param {{ tokens?: Tokens | null, signal?: AbortSignal }} [options]
 * @returns {Promise<Session>}
 */
export async function fork(server, sessionId, rank, { tokens = null, signal } = {}) {
  const response = await fetch(serverUrl(server, `sessions/${encodeURIComponent(sessionId)}/fork`), {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(tokens && { Authorization: `Bearer ${tokens.access_token}` }) },
    body: JSON.stringify({ rank }),
    signal: signal ?? null,
  });
  const answer = await response.json();
  if (response.ok) return answer;
  /** @type {{ error: FrameRefused }} */
  const { error } = answer;
  throw new Refused(error);
}
