/** Calls about one session: what its user says of answers, its export, and the links by which it is shared. */

/** @import { ChatMessage } from "@agentic-backend/client/protocol" */
/** @import { CallOptions } from "./call.js" */

import { call } from "./call.js";

/**
 * A link to a session. Only a new one has a `secret`, and the `path` of the chat page that shows it.
 *
 * @typedef {object} Share
 * @property {string} id
 * @property {string} created_at
 * @property {string} expires_at
 * @property {number} up_to_rank  it shows the messages below this rank
 * @property {string} [secret]
 * @property {string} [path]
 */

/**
 * A page of what somebody shares; without `next_after_rank` it is the last one.
 *
 * @typedef {object} SharedSession
 * @property {string} title
 * @property {string} agent_id
 * @property {string} agent_name
 * @property {{ id: string, name: string, icon?: string }[]} agents  those of this page
 * @property {string} shared_at
 * @property {string} expires_at
 * @property {ChatMessage[]} messages
 * @property {number} [next_after_rank]
 */

/**
 * Says what the answer at `rank` was like, instead of what was said before; `said` null takes it back.
 *
 * As each of these calls it throws what `call` throws.
 *
 * @param {string | URL} server  as in `connect`
 * @param {string} sessionId
 * @param {number} rank
 * @param {{ rating: "up" | "down", comment?: string } | null} said
 * @param {CallOptions} [options]
 * @returns {Promise<void>}
 */
export async function rate(server, sessionId, rank, said, options) {
  const path = `sessions/${encodeURIComponent(sessionId)}/messages/${rank}/feedback`;
  await call(server, said ? "PUT" : "DELETE", path, options, said);
}

/**
 * The session as a file, whose body may be read piece by piece.
 *
 * @param {string | URL} server
 * @param {string} sessionId
 * @param {"md" | "json"} format
 * @param {CallOptions} [options]
 * @returns {Promise<Response>}
 */
export function exported(server, sessionId, format, options) {
  return call(server, "GET", `sessions/${encodeURIComponent(sessionId)}/export?format=${format}`, options);
}

/**
 * A new link to what has ended in the session.
 *
 * @param {string | URL} server
 * @param {string} sessionId
 * @param {CallOptions & { days?: number }} [options]
 * @returns {Promise<Share>}
 */
export async function share(server, sessionId, options = {}) {
  const path = `sessions/${encodeURIComponent(sessionId)}/shares`;
  return (await call(server, "POST", path, options, { expires_in_days: options.days ?? null })).json();
}

/**
 * The open links to the session, the last first.
 *
 * @param {string | URL} server
 * @param {string} sessionId
 * @param {CallOptions} [options]
 * @returns {Promise<Share[]>}
 */
export async function shares(server, sessionId, options) {
  const response = await call(server, "GET", `sessions/${encodeURIComponent(sessionId)}/shares`, options);
  return (await response.json()).shares;
}

/**
 * Closes a link for good.
 *
 * @param {string | URL} server
 * @param {string} sessionId
 * @param {string} shareId
 * @param {CallOptions} [options]
 * @returns {Promise<void>}
 */
export async function revokeShare(server, sessionId, shareId, options) {
  const path = `sessions/${encodeURIComponent(sessionId)}/shares/${encodeURIComponent(shareId)}`;
  await call(server, "DELETE", path, options);
}

/**
 * A page of what somebody shares.
 *
 * @param {string | URL} server
 * @param {string} secret
 * @param {CallOptions & { afterRank?: number }} [options]
 * @returns {Promise<SharedSession>}
 */
export async function shared(server, secret, options = {}) {
  const path = `shares/${encodeURIComponent(secret)}?after_rank=${options.afterRank ?? -1}`;
  return (await call(server, "GET", path, options)).json();
}
