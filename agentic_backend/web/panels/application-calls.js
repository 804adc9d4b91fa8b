/** The calls of one application, by the names of their handlers, as its OpenAPI document has them. */

import { ApiError } from "../api.js";
import { writtenJson } from "../client/exact-json.js";
import { approved } from "./approved.js";
import { Refused } from "./frame-host.js";

/** Maps each name to its `{method, path}`. What streams is for no panel. */
export const callsOf = ({ paths }) =>
  new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { operationId, responses }]) => operationId && !responses?.[200]?.content?.["text/event-stream"])
        .map(([method, { operationId }]) => [operationId, { method: method.toUpperCase(), path }]),
    ),
  );

/**
 * The answer to the call `name` as a tool's result, also where it is refused; `given` has its `parts` of the path, its
 * `query` and its `body`.
 */
export async function toolResult({ api, calls, approve, name, args: { parts = {}, query = {}, body } }) {
  const call = calls.get(name);
  if (!call) throw new Refused("The application has no such call.");
  try {
    // Paths of applications stand beside the page, wherever that is.
    const url = new URL(filled(call.path, parts), document.baseURI);
    const answer = await approved((options) => api.call(call.method, url, { ...options, query, body }), approve);
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
