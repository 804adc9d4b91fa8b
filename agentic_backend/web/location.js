/**
 * The address bar: `#s=<session id>` names the open conversation, `/<rank>` behind it a message in it, `#token=…`
 * brings a developer's token, and `#state=…&code=…` Keycloak's answer to a sign-in. `#share/…` is the secret of a link
 * to what somebody shares. `#admin/…` is a place of the administration; see admin/route.js.
 *
 * What proves who somebody is leaves the address at once. A developer's token is kept for this tab only (memory and
 * sessionStorage), a sign-in's answer not at all.
 */

import { tabStorage } from "./browser-storage.js";

const TOKEN_KEY = "agentic.access_token";

const fragment = () => new URLSearchParams(location.hash.slice(1));

/** Takes a token out of the address if there is one, and returns the one in use, or null. */
export function adoptToken() {
  const parameters = fragment();
  const token = parameters.get("token");
  if (token === null) return tabStorage.get(TOKEN_KEY);
  parameters.delete("token");
  history.replaceState(null, "", address(parameters.toString()));
  tabStorage.set(TOKEN_KEY, token);
  return token;
}

/** Whether the address brings a token, which is adopted when the page is loaded. */
export const isTokenInAddress = () => fragment().has("token");

/** Takes the answer to a sign-in out of the address: its parameters, or null if there is none. */
export function takeSignInResponse() {
  const parameters = fragment();
  if (!parameters.has("state") || !(parameters.has("code") || parameters.has("error"))) return null;
  history.replaceState(null, "", address(""));
  return parameters;
}

export const sessionInAddress = () => fragment().get("s")?.split("/")[0] || null;

/** The rank of a message behind the session, as in `#s=ID/17`, taken out of the address; null if there is none. */
export function takeRankInAddress() {
  const [id, rank] = fragment().get("s")?.split("/") ?? [];
  if (rank === undefined) return null;
  history.replaceState(null, "", address(new URLSearchParams({ s: id }).toString()));
  return /^\d{1,15}$/.test(rank) ? Number(rank) : null;
}

/** Shows the session (null: a new conversation) in the address; `replace` leaves no step back. */
export function showSessionInAddress(sessionId, { replace = false } = {}) {
  if (sessionInAddress() === sessionId) return;
  const target = address(sessionId ? new URLSearchParams({ s: sessionId }).toString() : "");
  if (replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
}

/** Where a session (null: a new conversation), or its message of that rank, is opened in another tab. */
export const sessionHref = (sessionId, rank = null) =>
  address(sessionId ? new URLSearchParams({ s: rank === null ? sessionId : `${sessionId}/${rank}` }).toString() : "");

/** What a click on such a link does here; one that asks for another tab or window is the browser's. */
export const clickedHere = (open) => (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  open();
};

/** The secret of the link that the address is, or null. */
export const shareInAddress = () => /^#share\/([\w-]+)$/.exec(location.hash)?.[1] ?? null;

/** Puts a link's secret back into the address. */
export const showShareInAddress = (secret) => history.replaceState(null, "", address(`share/${secret}`));

/** The place of the administration that the address names, or null. */
export const adminInAddress = () => /^#admin\/(.+)$/.exec(location.hash)?.[1] ?? null;

/** Puts a place of the administration back into the address. */
export const showAdminInAddress = (place) => history.replaceState(null, "", address(`admin/${place}`));

/** Where a conversation shows and finds what is open: in the address. */
export const pageAddress = { session: sessionInAddress, takeRank: takeRankInAddress, show: showSessionInAddress };

const address = (hash) => location.pathname + location.search + (hash ? `#${hash}` : "");
