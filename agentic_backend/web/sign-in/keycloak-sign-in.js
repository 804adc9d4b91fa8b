/**
 * Signing in through Keycloak: OpenID Connect's authorization code flow with PKCE (RFC 6749, 7636, 9207).
 *
 * Owns the tokens. They are in memory and nowhere else: a page that is loaded again goes through Keycloak, whose own
 * session answers at once while it lasts. The answer comes in the fragment, which no server and no log gets to see.
 * Invariant: who asks for tokens gets some that last, or an error, or waits while the page is left for Keycloak's.
 */

import { t } from "../i18n.js";
import {
  adminInAddress,
  sessionInAddress,
  shareInAddress,
  showAdminInAddress,
  showSessionInAddress,
  showShareInAddress,
  takeSignInResponse,
} from "../location.js";
import * as oauth from "../vendor/oauth4webapi.js";
import { keepAttempt, takeAttempt } from "./attempt.js";
import { SignInError } from "./sign-in-error.js";

const TIMEOUT_MS = 20_000;
const RETRY_MS = 5_000;
/** What is more than a timer can hold would be taken for nothing. */
const LONGEST_DELAY_MS = 86_400_000;
/** A token that ends sooner is renewed before it is used. */
const LEEWAY_MS = 2_000;
/** How long before its end a token is renewed: the timers of a tab in the background run once a minute. */
const LEAD_MS = 60_000;
/** The ID token comes straight from Keycloak, for this attempt alone: a clock that is wrong here proves nothing. */
const CLOCK_TOLERANCE_S = 86_400 * 365;

export class KeycloakSignIn {
  user = null;
  renewable = true;
  /** Set by whoever uses the tokens: gets the newer ones. */
  onRenewed = () => {};
  #server;
  #client;
  #tokens = null;
  #expiresAt = 0;
  #renewal = null;
  #timer = null;

  constructor(realmUrl, clientId) {
    const endpoints = `${realmUrl}/protocol/openid-connect`;
    this.#server = {
      issuer: realmUrl,
      authorization_endpoint: `${endpoints}/auth`,
      token_endpoint: `${endpoints}/token`,
      end_session_endpoint: `${endpoints}/logout`,
      authorization_response_iss_parameter_supported: true,
    };
    this.#client = { client_id: clientId, [oauth.clockTolerance]: CLOCK_TOLERANCE_S };
  }

  get owner() {
    return this.user.id;
  }

  /** Takes Keycloak's answer out of the address; without it the page is left to get one. Raises SignInError. */
  async enter() {
    const response = takeSignInResponse();
    const attempt = takeAttempt();
    // An answer to nothing that this tab has asked counts for nothing: a step back leads to one, or a forged link.
    if (!response || response.get("state") !== attempt?.state) return this.#leave();
    showSessionInAddress(attempt.sessionId, { replace: true });
    if (attempt.share) showShareInAddress(attempt.share);
    if (attempt.admin) showAdminInAddress(attempt.admin);
    try {
      const parameters = oauth.validateAuthResponse(this.#server, this.#client, response, attempt.state);
      await this.#redeem(parameters, attempt);
    } catch (error) {
      // Keycloak's form was left standing until its time was over, and Keycloak wants to be asked again.
      if (error.error_description === "authentication_expired") return this.#leave();
      throw signInError(error);
    }
  }

  /** Tokens that last, renewed if need be or if `renew` says so. Raises where Keycloak can't be reached. */
  async tokens({ renew = false } = {}) {
    if (renew || Date.now() > this.#expiresAt - LEEWAY_MS) await this.#renew();
    return this.#shown;
  }

  /** Ends Keycloak's session too, and comes back to where one signs in. */
  signOut() {
    clearTimeout(this.#timer);
    go(this.#server.end_session_endpoint, {
      client_id: this.#client.client_id,
      id_token_hint: this.#tokens.id_token,
      post_logout_redirect_uri: pageAddress(),
    });
  }

  async #redeem(parameters, { verifier, nonce }) {
    const response = await oauth.authorizationCodeGrantRequest(
      this.#server,
      this.#client,
      oauth.None(),
      parameters,
      pageAddress(),
      verifier,
      requestOptions(),
    );
    const checks = { expectedNonce: nonce, requireIdToken: true };
    const tokens = await oauth.processAuthorizationCodeResponse(this.#server, this.#client, response, checks);
    const { sub, name, preferred_username: userName } = oauth.getValidatedIdTokenClaims(tokens);
    this.user = { id: sub, name: name || userName || sub };
    this.#keep(tokens);
  }

  /** One renewal at a time, whoever asks for it. */
  #renew() {
    this.#renewal ??= this.#refresh().finally(() => {
      this.#renewal = null;
    });
    return this.#renewal;
  }

  async #refresh() {
    const refreshToken = this.#tokens.refresh_token;
    try {
      const response = await oauth.refreshTokenGrantRequest(
        this.#server,
        this.#client,
        oauth.None(),
        refreshToken,
        requestOptions(),
      );
      this.#keep(await oauth.processRefreshTokenResponse(this.#server, this.#client, response));
    } catch (error) {
      // Keycloak says no: the session there has ended.
      if (error instanceof oauth.ResponseBodyError) return this.#leave();
      this.#renewIn(RETRY_MS);
      throw error;
    }
    this.onRenewed(this.#shown);
  }

  /** What the server gets: the refresh token too, for agents whose work outlasts the access token. */
  get #shown() {
    const { access_token, refresh_token } = this.#tokens;
    return { access_token, refresh_token };
  }

  #keep(tokens) {
    this.#tokens = { ...this.#tokens, ...tokens };
    const lifetime = tokens.expires_in * 1_000;
    this.#expiresAt = Date.now() + lifetime;
    // Not all pages at once, after a server has come back and they have all signed in again.
    this.#renewIn(lifetime - Math.min(LEAD_MS, lifetime / 3) * (1 + Math.random() / 2));
  }

  #renewIn(delay) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#renew().catch(() => {}), Math.min(delay, LONGEST_DELAY_MS));
  }

  /** Leaves for Keycloak; never ends. Raises SignInError where its answer could not be checked. */
  async #leave() {
    clearTimeout(this.#timer);
    const state = oauth.generateRandomState();
    const nonce = oauth.generateRandomNonce();
    const verifier = oauth.generateRandomCodeVerifier();
    const challenge = await oauth.calculatePKCECodeChallenge(verifier);
    const shown = { sessionId: sessionInAddress(), share: shareInAddress(), admin: adminInAddress() };
    const attempt = { state, nonce, verifier, ...shown };
    // Without it the page would leave for Keycloak again and again.
    if (!keepAttempt(attempt)) throw new SignInError(t("Signing in needs site data that the browser blocks or has no room for."));
    go(this.#server.authorization_endpoint, {
      client_id: this.#client.client_id,
      redirect_uri: pageAddress(),
      response_type: "code",
      response_mode: "fragment",
      scope: "openid profile",
      state,
      nonce,
      code_challenge: challenge,
      code_challenge_method: "S256",
    });
    return new Promise(() => {});
  }
}

const pageAddress = () => new URL(".", document.baseURI).href;

/** Without a step back: it would lead to Keycloak, and from there to here again. */
function go(endpoint, parameters) {
  location.replace(`${endpoint}?${new URLSearchParams(parameters)}`);
}

const requestOptions = () => ({
  signal: AbortSignal.timeout(TIMEOUT_MS),
  // Loopback; anywhere else the browser itself keeps a secure page from asking over plain HTTP.
  [oauth.allowInsecureRequests]: true,
});

function signInError(error) {
  if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
    return new SignInError(
      t("Keycloak refused the sign-in: {reason}", { reason: error.error_description ?? error.error }),
    );
  }
  const unusable = error instanceof oauth.OperationProcessingError;
  return new SignInError(unusable ? t("Keycloak's answer can't be used.") : t("Keycloak can't be reached."));
}
