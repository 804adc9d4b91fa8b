/**
 * Who uses the page, and the tokens that prove it: in the way that the document names.
 *
 * A sign-in has `user` (`{id, name}`, or null where nobody signs in), `owner` (whose it is what the page keeps in the
 * browser), `tokens()`, which resolves to `{access_token, refresh_token?}` or null, and `renewable`: whether
 * `tokens({ renew: true })` has others in place of those that were refused; where it hasn't, it resolves to null.
 */

import { t } from "../i18n.js";
import { signInMode } from "../brand.js";
import { DeveloperSignIn } from "./developer-sign-in.js";
import { SignInError } from "./sign-in-error.js";

/** The user's sign-in; or the page is left for Keycloak's, and this doesn't end. Raises SignInError. */
export async function signedIn() {
  const { mode, realm_url: realmUrl, client_id: clientId } = signInMode;
  if (mode === "developer") return new DeveloperSignIn();
  // Without a secure context there is no SHA-256, and whoever listens on the line could take the tokens.
  if (!isSecureContext) throw new SignInError(t("Signing in needs a secure connection. Open this page under https://."));
  // Only who needs it loads it.
  const { KeycloakSignIn } = await import("./keycloak-sign-in.js");
  const signIn = new KeycloakSignIn(realmUrl, clientId);
  await signIn.enter();
  return signIn;
}
