/** What HTTP says where no socket opens, for runtimes whose WebSocket doesn't: browsers, and Node without `ws`. */

/** @import { HttpAnswer } from "./connection.js" */

import { serverUrl } from "./server-url.js";

const ANSWER_WITHIN_MS = 10_000;

/**
 * How a call is answered that every server answers without a token; null if it is well, or has no
 * status that a script may read; the error where nothing answers.
 *
 * @param {string | URL} server
 * @param {AbortSignal} left  nobody waits for it any more
 * @returns {Promise<HttpAnswer | Error | null>}
 */
export async function httpAnswer(server, left) {
  try {
    const signal = AbortSignal.any([left, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
    const { ok, status, headers } = await fetch(serverUrl(server, "sign-in"), { redirect: "manual", signal });
    // A browser hides a redirect behind the status 0.
    return ok || !status ? null : { status, retryAfter: headers.get("Retry-After"), location: headers.get("Location") };
  } catch (error) {
    return error instanceof Error ? error : null;
  }
}
