/**
 * What one attempt to sign in has to remember while Keycloak's pages are shown instead of this one.
 *
 * `{state, nonce, verifier, sessionId, share}`, for this tab only. It proves nothing without the answer that it belongs to,
 * and is forgotten with it.
 */

const KEY = "agentic.sign_in";

export const keepAttempt = (attempt) => sessionStorage.setItem(KEY, JSON.stringify(attempt));

/** The attempt that was kept, or null; it counts once. */
export function takeAttempt() {
  const attempt = JSON.parse(sessionStorage.getItem(KEY));
  sessionStorage.removeItem(KEY);
  return attempt;
}
