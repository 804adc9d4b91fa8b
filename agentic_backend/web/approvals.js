/**
 * What an exchange asks a person, and what was decided about it.
 *
 * Pure. Of an exchange it owns `awaiting` (what the server says is still open, or null), `requests` (all that were
 * shown, `{request, afterRank}`, in order), `decisions` and `refusals`, both by the key of their request. A decision is
 * `{action, message?, args?, answer?}`; one that was made here counts as taken once its request is no longer open.
 */

/** A call has an id of its own within its interrupt; a question is its interrupt. */
export const requestKey = ({ interrupt_id: interruptId, call_id: callId = "" }) => `${interruptId}/${callId}`;

/** The exchange waits for what `payload` asks; what was open before and isn't any more has been settled. */
export function awaiting(exchange, payload, afterRank) {
  const requests = withRequests(exchange.requests, payload.requests, afterRank);
  return { ...exchange, status: "awaiting_human", awaiting: payload, requests, progress: null };
}

function withRequests(shown, requests, afterRank) {
  const known = new Set(shown.map(({ request }) => requestKey(request)));
  const news = requests.filter((request) => !known.has(requestKey(request)));
  return [...shown, ...news.map((request) => ({ request, afterRank }))];
}

/** The user has decided `made`, `[{request, decision}]`; shown at once, before the server has heard of it. */
export function decided(exchange, made) {
  const decisions = { ...exchange.decisions };
  const refusals = { ...exchange.refusals };
  for (const { request, decision } of made) {
    decisions[requestKey(request)] = decision;
    delete refusals[requestKey(request)];
  }
  return { ...exchange, decisions, refusals };
}

/** The server has refused what was decided about the requests with these keys, in these words. */
export function undecided(exchange, keys, content) {
  const decisions = { ...exchange.decisions };
  const refusals = { ...exchange.refusals };
  for (const key of keys) {
    delete decisions[key];
    refusals[key] = content;
  }
  return { ...exchange, decisions, refusals };
}

/** The decisions in the server's record of the exchange are the true ones, whoever made them. */
export function withRecordedDecisions(exchange, recorded, afterRank) {
  const decisions = { ...exchange.decisions };
  for (const { edited_args: args, ...decision } of recorded) decisions[requestKey(decision)] = { ...decision, args };
  // They name the calls that they are about, but not the words of a question.
  const calls = recorded.filter(({ call_id: id }) => id);
  return { ...exchange, decisions, requests: withRequests(exchange.requests, calls, afterRank) };
}

/**
 * Every request of the exchange as `{key, request, afterRank, state, decision, refusal}`; `state` is `open`, `sent`
 * (decided here, not taken by the server yet) or `settled`, whose decision is null while nobody here knows it.
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

/** The keys of what the server still waits for. */
export const openKeys = (exchange) => new Set((exchange.awaiting?.requests ?? []).map(requestKey));

export const openApprovals = (exchange) => approvals(exchange).filter(({ state }) => state === "open");

/** The keys of what was settled and nobody here knows how. */
export const unknownKeys = (exchange) =>
  approvals(exchange)
    .filter(({ state, decision }) => state === "settled" && !decision)
    .map(({ key }) => key);
