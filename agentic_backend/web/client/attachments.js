/** Uploads files, so that an ask may name them in `attachments`. */

/** @import { CallOptions } from "./call.js" */

import { call } from "./call.js";

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
 * Uploads a file to the server at this address: an image, a document or a text. Throws what `call` throws.
 *
 * @param {string | URL} server  as in `connect`
 * @param {Blob} content
 * @param {CallOptions & { name: string }} options
 * @returns {Promise<Attachment>}
 */
export async function upload(server, content, { name, ...options }) {
  const form = new FormData();
  form.append("file", content, name);
  return (await call(server, "POST", "attachments", options, form)).json();
}
