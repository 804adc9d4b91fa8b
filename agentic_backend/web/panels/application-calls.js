/** The calls of one application, by the names of their handlers, as its OpenAPI document has them. */

import { ApiError } from "../api.js";
import { writtenJson } from "../client/exact-json.js";
import { approved } from "./approved.js";
import { Refused } from "./frame-host.js";

/** How long it may take to send a file and to be answered, in milliseconds. */
const UPLOAD_MS = 600_000;

/** Maps each name to its `{method, path, takesFile}`. What streams is for no panel. */
export const callsOf = ({ paths }) =>
  new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { operationId, responses }]) => operationId && !responses?.[200]?.content?.["text/event-stream"])
        .map(([method, { operationId, requestBody }]) => [
          operationId,
          { method: method.toUpperCase(), path, takesFile: Boolean(requestBody?.content?.["multipart/form-data"]) },
        ]),
    ),
  );

/**
 * The answer to the call `name` as a tool's result, also where it is refused; `args` has its `parts` of the path, its
 * `query` and its `body`. `upload` is the File for a call that takes one, else null.
 */
export async function toolResult({ api, calls, approve, name, args: { parts = {}, query = {}, body }, upload }) {
  const call = calls.get(name);
  if (!call) throw new Refused("The application has no such call.");
  if (call.takesFile !== Boolean(upload)) throw new Refused(`The call takes ${call.takesFile ? "a" : "no"} file.`);
  const sent = upload ? { upload, timeoutMs: UPLOAD_MS } : { body };
  try {
    // Paths of applications stand beside the page, wherever that is.
    const url = new URL(filled(call.path, parts), document.baseURI);
    const answer = await approved((options) => api.call(call.method, url, { ...options, ...sent, query }), approve);
    return { content: [{ type: "text", text: writtenJson(answer ?? {}) }], structuredContent: answer ?? {} };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { code, content, status } = error;
    return { content: [{ type: "text", text: content }], structuredContent: { error: { code, content, status } }, isError: true };
  }
}

function filled(path, parts) {
  const whole = path.replace(/\{(\w+)\}/g, (_, name) => {
    const part = parts[name];
    // A dot would lead elsewhere.
    if (typeof part !== "string" || /^\.{0,2}$/.test(part)) throw new Refused(`The part ‘${name}’ of the path is missing.`);
    return encodeURIComponent(part);
  });
  return whole.slice(1);
}
