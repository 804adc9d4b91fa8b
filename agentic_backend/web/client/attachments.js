/** Uploads files, so that an ask may name them in `attachments`. */

/** @import { FrameRefused } from "@agentic-backend/client/protocol" */
/** @import { Tokens } from "./connection.js" */

import { Refused } from "./errors.js";
import { serverUrl } from "./server-url.js";

/**
 * A file on the server. `mime` is what its content tells, `text_chars` how much text a model reads of it.
 *
 * @typedef {object} Attachment
 * @property {string} id
 * @property {string} name
 * @property {string} mime
 * @property {number} size  in bytes
 * @property {string} sha256
 * @property {string} created_at
 * @property {string} [session_id]
 * @property {number} [text_chars]
 */

/**
 * Uploads a file to the server at this address: an image, a PDF, or text in UTF-8. Throws Refused if the server does
 * not take it, and what `fetch` throws.
 *
 * @param {string | URL} server  as in `connect`
 * @param {Blob} content
 * @param {{ name: string, tokens?: Tokens | null, signal?: AbortSignal }} options
 * @returns {Promise<Attachment>}
 */
export async function upload(server, content, { name, tokens = null, signal }) {
  const body = new FormData();
  body.append("file", content, name);
  /** @type {Record<string, string>} */
  const headers = tokens ? { Authorization: `Bearer ${tokens.access_token}` } : {};
  const response = await fetch(serverUrl(server, "attachments"), {
    method: "POST",
    headers,
    body,
    signal: signal ?? null,
  });
  const answer = await response.json();
  if (response.ok) return answer;
  /** @type {{ error: FrameRefused }} */
  const { error } = answer;
  throw new Refused(error);
}
