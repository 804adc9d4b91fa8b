/**
 * What an exchange asks a person, and what was decided about it.
 *
 * Pure. Of an exchange it owns `awaiting`, `requests`, `decisions` and `refusals`. A decision that was made here counts
 * as taken once its request is no longer open.
 */

/** @import { Decision, HumanDecisions, HumanRequest, HumanRequests } from "@agentic-backend/client/protocol" */
/** @import { TranscriptExchange } from "./transcript-exchange.js" */

/**
 * What a person decides about a tool call, or answers to a question.
 *
 * @typedef {Pick<Decision, "action" | "message" | "args"> | { readonly action: "answer", readonly answer: unknown }}
 *   MadeDecision
 */

/** @typedef {{ readonly request: HumanRequest, readonly decision: MadeDecision }} DecidedRequest */

/** @typedef {{ readonly request: HumanRequest, readonly afterRank: number }} ShownRequest */

/**
 * @typedef {object} Approvable  what is owned here of an exchange
 * @property {HumanRequests | null} awaiting  what the server says is still open
 * @property {readonly ShownRequest[]} requests  all that were shown, in order
 * @property {Readonly<Record<string, ShownDecision>>} decisions  by the key of their request
 * @property {Readonly<Record<string, string>>} refusals  why the server refused a decision, by the key of its request
 */

/**
 * @typedef {object} Approval  a request and what became of it
 * @property {string} key
 * @property {HumanRequest} request
 * @property {number} afterRank
 * @property {"open" | "sent" | "settled"} state  `sent`: decided here, and not taken by the server yet
 * @property {ShownDecision | null} decision  null of a settled one while nobody here knows it
 * @property {string | null} refusal
 */

/**
 * A decision as it is shown, whoever made it; what was recorded also has who and when.
 *
 * @typedef {MadeDecision | Omit<RecordedDecision, "edited_args">} ShownDecision
 */

/**
 * @typedef {object} RecordedDecision  as the server's record of an exchange has it
 * @property {string} interrupt_id
 * @property {string} [call_id]
 * @property {string} [name]
 * @property {string} action
 * @property {string} [message]
 * @property {Readonly<Record<string, unknown>>} [args]  those that the person saw
 * @property {Readonly<Record<string, unknown>>} [edited_args]
 * @property {unknown} [answer]
 */

/**
 * A call has an id of its own within its interrupt; a question is its interrupt.
 *
 * @param {{ readonly interrupt_id: string, readonly call_id?: string }} request
 */
export const requestKey = ({ interrupt_id: interruptId, call_id: callId = "" }) => `${interruptId}/${callId}`;

/**
 * The exchange waits for what `payload` asks; what was open before and isn't any more has been settled.
 *
 * @param {TranscriptExchange} exchange
 * @param {HumanRequests} payload
 * @param {number} afterRank
 * @returns {TranscriptExchange}
 */
export function awaiting(exchange, payload, afterRank) {
  const requests = withRequests(exchange.requests, payload.requests, afterRank);
  return { ...exchange, status: "awaiting_human", awaiting: payload, requests, progress: null };
}

/**
 * @param {readonly ShownRequest[]} shown
 * @param {readonly HumanRequest[]} requests
 * @param {number} afterRank
 */
function withRequests(shown, requests, afterRank) {
  const known = new Set(shown.map(({ request }) => requestKey(request)));
  const news = requests.filter((request) => !known.has(requestKey(request)));
  return [...shown, ...news.map((request) => ({ request, afterRank }))];
}

/**
 * The user has decided `made`; shown at once, before the server has heard of it.
 *
 * @param {TranscriptExchange} exchange
 * @param {readonly DecidedRequest[]} made
 * @returns {TranscriptExchange}
 */
export function decided(exchange, made) {
  const decisions = { ...exchange.decisions };
  const refusals = { ...exchange.refusals };
  for (const { request, decision } of made) {
    decisions[requestKey(request)] = decision;
    delete refusals[requestKey(request)];
  }
  return { ...exchange, decisions, refusals };
}

/**
 * The server has refused what was decided about the requests with these keys, in these words.
 *
 * @param {TranscriptExchange} exchange
 * @param {readonly string[]} keys
 * @param {string} content
 * @returns {TranscriptExchange}
 */
export function undecided(exchange, keys, content) {
  const decisions = { ...exchange.decisions };
  const refusals = { ...exchange.refusals };
  for (const key of keys) {
    delete decisions[key];
    refusals[key] = content;
  }
  return { ...exchange, decisions, refusals };
}

/**
 * The decisions in the server's record of the exchange are the true ones, whoever made them.
 *
 * @param {TranscriptExchange} exchange
 * @param {readonly RecordedDecision[]} recorded
 * @param {number} afterRank
 * @returns {TranscriptExchange}
 */
export function withRecordedDecisions(exchange, recorded, afterRank) {
  const decisions = { ...exchange.decisions };
  for (const { edited_args: edited, args: _shown, ...decision } of recorded) {
    decisions[requestKey(decision)] = edited ? { ...decision, args: edited } : decision;
  }
  // They name the calls that they are about, but not the words of a question.
  const calls = recorded.filter(({ call_id: id }) => id).map((call) => ({ ...call, allowed: [] }));
  return { ...exchange, decisions, requests: withRequests(exchange.requests, calls, afterRank) };
}

/**
 * Every request of the exchange, and what became of it.
 *
 * @param {Approvable} exchange
 * @returns {Approval[]}
 */
export function approvals(exchange) {
  const open = openKeys(exchange);
  return exchange.requests.map(({ request, afterRank }) => {
    const key = requestKey(request);
    const decision = exchange.decisions[key] ?? null;
    const state = !open.has(key) ? "settled" : decision ? "sent" : "open";
    return { key, request, afterRank, state, decision, refusal: exchange.refusals[key] ?? null };
  });
}

/**
 * The keys of what the server still waits for.
 *
 * @param {Approvable} exchange
 */
export const openKeys = (exchange) => new Set((exchange.awaiting?.requests ?? []).map(requestKey));

/** @param {Approvable} exchange */
export const openApprovals = (exchange) => approvals(exchange).filter(({ state }) => state === "open");

/**
 * The keys of what was decided here and the server has not taken yet.
 *
 * @param {Approvable} exchange
 */
export const sentKeys = (exchange) =>
  approvals(exchange)
    .filter(({ state }) => state === "sent")
    .map(({ key }) => key);

/**
 * The keys of what was settled and nobody here knows how.
 *
 * @param {Approvable} exchange
 */
export const unknownKeys = (exchange) =>
  approvals(exchange)
    .filter(({ state, decision }) => state === "settled" && !decision)
    .map(({ key }) => key);

/**
 * The payload of a `human_resume`. `args_sha256` is that of the arguments that were shown, as the server named it.
 *
 * @param {readonly DecidedRequest[]} made
 * @returns {HumanDecisions}
 */
export function payloadOf(made) {
  const decisions = [];
  /** @type {[string, unknown][]} */
  const answers = [];
  for (const { request, decision } of made) {
    const { interrupt_id: interruptId, call_id = "", args_sha256 = "" } = request;
    if (decision.action === "answer") answers.push([interruptId, decision.answer]);
    else decisions.push({ call_id, args_sha256, ...decision });
  }
  return { decisions, answers: Object.fromEntries(answers) };
}
