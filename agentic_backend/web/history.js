/** Reading what is stored of a session, page by page. */

/** How many messages are read at once. */
export const PAGE = 100;
/** How many are for who jumps far back. */
export const LEAP = 400;
/** How many a browser can show at once. */
export const MOST_AT_ONCE = 5_000;

/** The session's stored messages from `firstRank` on, at least up to `endRank` if they are there, in rank order. */
export async function readMessages(api, sessionId, firstRank, endRank, limit = PAGE) {
  const messages = [];
  let next = firstRank;
  for (;;) {
    const page = await api.messages(sessionId, { afterRank: next > 0 ? next - 1 : null, limit });
    messages.push(...page.messages);
    next = (page.messages.at(-1)?.rank ?? Infinity) + 1;
    if (next >= endRank) return messages;
  }
}

/** What the session's list tells of its exchanges from the one that has `firstRank` up to, but without, `endRank`. */
export async function readExchanges(api, sessionId, firstRank, endRank, limit = PAGE) {
  const exchanges = [];
  let next = firstRank;
  while (next !== undefined && next < endRank) {
    const page = await api.exchanges(sessionId, { fromRank: next, limit: limit / 2 });
    exchanges.push(...page.exchanges);
    next = page.next_rank;
  }
  return exchanges;
}

/** Both of these ranks, read side by side: `{messages, exchanges}`. */
export async function readHistory(api, sessionId, firstRank, endRank, limit = PAGE) {
  const [messages, exchanges] = await Promise.all([
    readMessages(api, sessionId, firstRank, endRank, limit),
    readExchanges(api, sessionId, firstRank, endRank, limit),
  ]);
  return { messages, exchanges };
}
