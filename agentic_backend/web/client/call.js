/** One REST call of a server. */

/** @import { FrameRefused } from "@agentic-backend/client/protocol" */
/** @import { Tokens } from "./connection.js" */

import { Refused, Unreadable } from "./errors.js";
import { writtenJson } from "./exact-json.js";
import { serverUrl } from "./server-url.js";

/**
 * @typedef {object} CallOptions
 * @property {Tokens | null} [tokens]
 * @property {AbortSignal} [signal]
 */

/**
 * The answer to the call. Throws Refused if the server refuses it, Unreadable if something before it does (a proxy, say),
 * and what `fetch` throws.
 *
 * @param {string | URL} server  as in `connect`
 * @param {string} method
 * @param {string} path  what comes behind `agentic/v1/`
 * @param {CallOptions} [options]
 * @param {FormData | object | null} [body]  sent as JSON, unless it is a form
 * @returns {Promise<Response>}
 */
export async function call(server, method, path, { tokens = null, signal } = {}, body = null) {
  /** @type {Record<string, string>} */
  const headers = tokens ? { Authorization: `Bearer ${tokens.access_token}` } : {};
  const isForm = body instanceof FormData;
  if (body && !isForm) headers["Content-Type"] = "application/json";
  const response = await fetch(serverUrl(server, path), {
    method,
    headers,
    body: isForm ? body : body && writtenJson(body),
    signal: signal ?? null,
  });
  if (response.ok) return response;
  /** @type {{ error?: FrameRefused } | null} */
  const answer = await response.json().catch(() => null);
  throw answer?.error ? new Refused(answer.error) : new Unreadable(`${response.status}`);
}
