/**
 * What one attempt to sign in has to remember while Keycloak's pages are shown instead of this one.
 *
 * `{state, nonce, verifier, sessionId, share, admin}`, for this tab only. It proves nothing without the answer that it
 * belongs to, and is forgotten with it.
 */

import { tabStorage } from "../browser-storage.js";

const KEY = "agentic.sign_in";

/** Whether it is there when Keycloak answers. */
export const keepAttempt = (attempt) => tabStorage.set(KEY, JSON.stringify(attempt));

/** The attempt that was kept, or null; it counts once. */
export function takeAttempt() {
  const attempt = JSON.parse(tabStorage.get(KEY));
  tabStorage.delete(KEY);
  return attempt;
}
