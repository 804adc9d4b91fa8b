/**
 * The REST client: one method per operation, JSON in and out.
 *
 * Every failure is an `ApiError` with the server's `code` and `content`, or code `unreachable`.
 */

import { parseExactly, writtenJson } from "./client/exact-json.js";
import { heardDate } from "./server-time.js";

const TIMEOUT_MS = 20_000;

export class ApiError extends Error {
  /** `problems` are what is wrong with YAML that was refused, each at its place; `approval` what the person has to approve of. */
  constructor({
    status = 0,
    code = "unreachable",
    content = "The server can't be reached.",
    requestId = null,
    problems = [],
    approval = null,
  } = {}) {
    super(content);
    this.status = status;
    this.code = code;
    this.content = content;
    this.requestId = requestId;
    this.problems = problems;
    this.approval = approval;
  }
}

export class Api {
  /** `root` is the URL of `/agentic/v1/`; `tokens` resolves to those to use, anew at each call, or to null. */
  constructor(root, tokens) {
    this.root = root;
    this.tokens = tokens;
  }

  /** What this server is: `{versions, limits, features, …}`. */
  info() {
    return this.#call("GET", "info");
  }

  agents() {
    return this.#call("GET", "agents");
  }

  /** One page of `{sessions, next_cursor?}`. */
  sessions({ pinned, archived, cursor, limit } = {}) {
    return this.#call("GET", "sessions", { query: { pinned, archived, cursor, limit } });
  }

  /** One page of `{found[{session, title, hits}], next_cursor?}`. */
  search({ query, cursor, limit }) {
    return this.#call("GET", "search", { query: { q: query, cursor, limit } });
  }

  session(id) {
    return this.#call("GET", `sessions/${encodeURIComponent(id)}`);
  }

  /** Changes the `title` of a session and of its branches, or whether they are `pinned` or `archived`. */
  change(id, change) {
    return this.#call("PATCH", `sessions/${encodeURIComponent(id)}`, { body: change });
  }

  /** A new branch of the session, which begins at `rank`. */
  fork(id, rank) {
    return this.#call("POST", `sessions/${encodeURIComponent(id)}/fork`, { body: { rank } });
  }

  /** The session's family: `{branches}`, the root first. */
  branches(id) {
    return this.#call("GET", `sessions/${encodeURIComponent(id)}/branches`);
  }

  /** With `keepalive` the call outlasts the page. */
  remove(id, { keepalive = false } = {}) {
    return this.#call("DELETE", `sessions/${encodeURIComponent(id)}`, { keepalive });
  }

  /** Ends the session, and what runs in it; nothing can be asked in it any more. */
  complete(id) {
    return this.#call("POST", `sessions/${encodeURIComponent(id)}/complete`);
  }

  exchange(id) {
    return this.#call("GET", `exchanges/${encodeURIComponent(id)}`);
  }

  /** Goes on with an interrupted exchange; the new one is heard of where its session is followed. */
  resume(id) {
    return this.#call("POST", `exchanges/${encodeURIComponent(id)}/resume`);
  }

  /** One page of `{messages, next_rank}` after `afterRank` (null: from the first). */
  messages(id, { afterRank, limit }) {
    return this.#call("GET", `sessions/${encodeURIComponent(id)}/messages`, {
      query: { after_rank: afterRank, limit },
    });
  }

  /** One page of `{exchanges, next_rank?}`, from the exchange that has the message `fromRank` on. */
  exchanges(id, { fromRank, limit }) {
    return this.#call("GET", `sessions/${encodeURIComponent(id)}/exchanges`, { query: { from_rank: fromRank, limit } });
  }

  /** What the session has cost by exchange: `{priced, sums, truncated}`. */
  costs(sessionId) {
    return this.#call("GET", "usage", { query: { session_id: sessionId, by: "exchange_id" } });
  }

  /** What calls of models have used, in one session or exchange, by model: `{priced, sums, truncated}`. */
  usage({ sessionId, exchangeId }) {
    return this.#call("GET", "usage", { query: { session_id: sessionId, exchange_id: exchangeId, by: "model" } });
  }

  /** What the user says of the session's answers: `{feedback}`. */
  feedback(sessionId) {
    return this.#call("GET", `sessions/${encodeURIComponent(sessionId)}/feedback`);
  }

  /** Says `{rating, comment}` of the answer at `rank`. */
  giveFeedback(sessionId, rank, said) {
    return this.#call("PUT", `sessions/${encodeURIComponent(sessionId)}/messages/${rank}/feedback`, { body: said });
  }

  withdrawFeedback(sessionId, rank) {
    return this.#call("DELETE", `sessions/${encodeURIComponent(sessionId)}/messages/${rank}/feedback`);
  }

  /** The open links to the session: `{shares}`. */
  shares(sessionId) {
    return this.#call("GET", `sessions/${encodeURIComponent(sessionId)}/shares`);
  }

  /** A new link, which is open for so many days. */
  share(sessionId, days) {
    return this.#call("POST", `sessions/${encodeURIComponent(sessionId)}/shares`, { body: { expires_in_days: days } });
  }

  revokeShare(sessionId, shareId) {
    return this.#call("DELETE", `sessions/${encodeURIComponent(sessionId)}/shares/${encodeURIComponent(shareId)}`);
  }

  /** One page of what somebody shares, after `afterRank` (null: from the first message). */
  shared(secret, afterRank) {
    return this.#call("GET", `shares/${encodeURIComponent(secret)}`, { query: { after_rank: afterRank } });
  }

  /** The session as a file, `md` or `json`: `{name, blob}`. */
  async exported(sessionId, format) {
    const response = await this.#fetched(`sessions/${encodeURIComponent(sessionId)}/export`, { format });
    const name = /filename\*=UTF-8''(\S+)/.exec(response.headers.get("Content-Disposition"))?.[1];
    // One that breaks off is not all of it.
    const blob = await response.blob().catch(() => {
      throw new ApiError();
    });
    return { name: name ? decodeURIComponent(name) : `conversation.${format}`, blob };
  }

  /** What the answer of an exchange rests on: a TrustSummary. */
  trust(exchangeId) {
    return this.#call("GET", `exchanges/${encodeURIComponent(exchangeId)}/trust`);
  }

  /** The steps of a run: a RunView. */
  steps(exchangeId) {
    return this.#call("GET", `exchanges/${encodeURIComponent(exchangeId)}/steps`);
  }

  /** The graphs of an agent and its crew: a GraphsView. */
  graph(agentId) {
    return this.#call("GET", `agents/${encodeURIComponent(agentId)}/graph`);
  }

  /** Runs an exchange again from a step of its graph, in a branch: `{session_id, exchange_id}`. */
  rerun(exchangeId, graphStep) {
    return this.#call("POST", `exchanges/${encodeURIComponent(exchangeId)}/rerun`, { body: { graph_step: graphStep } });
  }

  /** Uploads a file: the attachment. `onProgress` gets the part that was sent, from 0 to 1. */
  async upload(file, { onProgress, signal }) {
    const headers = await this.#headers();
    return new Promise((resolve, reject) => {
      // fetch doesn't tell how much was sent.
      const request = new XMLHttpRequest();
      request.open("POST", this.#url("attachments", {}));
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
      request.onload = () => {
        const isJson = request.getResponseHeader("Content-Type")?.includes("json");
        const answer = isJson ? parsed(request.responseText) : null;
        if (request.status === 201 && answer) resolve(answer);
        else reject(apiError(request.status, answer));
      };
      request.onerror = request.onabort = () => reject(new ApiError());
      signal.addEventListener("abort", () => request.abort());
      request.send(formOf(file));
    });
  }

  /** The content of an attachment, as a Blob. */
  async attachment(id) {
    return (await this.#fetched(`attachments/${encodeURIComponent(id)}`)).blob();
  }

  /** Deletes an attachment that was not sent. */
  removeAttachment(id) {
    return this.#call("DELETE", `attachments/${encodeURIComponent(id)}`);
  }

  /**
   * Calls what has no method here: what is loaded later knows its own paths. `upload` is a File to send, instead of a
   * `body`. Raises ApiError.
   */
  call(method, path, options) {
    return this.#call(method, path, options);
  }

  /** As `call`, for a GET of what is no JSON: a Blob. */
  async file(path) {
    return (await this.#fetched(path)).blob();
  }

  async #call(method, path, { query = {}, ...options } = {}) {
    const { response, answer } = await this.#fetch(method, this.#url(path, query), options).catch(() => {
      throw new ApiError();
    });
    if (!response.ok) throw apiError(response.status, answer);
    return answer;
  }

  /** The response to a GET of what is no JSON to read. */
  async #fetched(path, query = {}) {
    const headers = await this.#headers();
    const response = await fetch(this.#url(path, query), { headers }).catch(() => {
      throw new ApiError();
    });
    if (!response.ok) throw apiError(response.status, await response.json().catch(() => null));
    return response;
  }

  #url(path, query) {
    const url = new URL(path, this.root);
    for (const [name, value] of Object.entries(query)) {
      if (value != null && value !== "") url.searchParams.set(name, value);
    }
    return url;
  }

  /** Without tokens, because whoever gives them can't be reached, there is no call. */
  async #headers() {
    const tokens = await this.tokens().catch(() => {
      throw new ApiError();
    });
    return tokens ? { Authorization: `Bearer ${tokens.access_token}` } : {};
  }

  async #fetch(method, url, { body, upload, keepalive, approved, timeoutMs = TIMEOUT_MS }) {
    const headers = { Accept: "application/json", ...(await this.#headers()) };
    if (body) headers["Content-Type"] = "application/json";
    if (approved) headers.Approval = approved;
    const signal = AbortSignal.timeout(timeoutMs);
    const sent = upload ? formOf(upload) : body && writtenJson(body);
    const response = await fetch(url, { method, headers, signal, keepalive, body: sent });
    heardDate(response.headers.get("Date"));
    if (!response.headers.get("Content-Type")?.includes("json")) {
      // A stream of events, which come over the socket too, or nothing.
      response.body?.cancel();
      return { response, answer: null };
    }
    const text = await response.text();
    return { response, answer: text ? parseExactly(text) : null };
  }
}

function formOf(file) {
  const form = new FormData();
  // A File of a frame with a process of its own is a path that this one may not read; what it consists of may be read.
  form.append("file", new Blob([file], { type: file.type }), file.name);
  return form;
}

/** What is no JSON, although it says so, comes from something between here and the server. */
function parsed(text) {
  try {
    return parseExactly(text);
  } catch {
    return null;
  }
}

function apiError(status, answer) {
  const error = answer?.error;
  if (error?.code) {
    const { code, content, request_id: requestId, problems, approval } = error;
    return new ApiError({ status, code, content, requestId, problems, approval });
  }
  return new ApiError({ status, code: "internal", content: `The server answered with status ${status}.` });
}
