/** Reading stored messages, page by page. */

/** How many messages are read at once. */
export const PAGE = 100;

/** The session's stored messages from `firstRank` on, at least up to `endRank` if they are there, in rank order. */
export async function readMessages(api, sessionId, firstRank, endRank) {
  const messages = [];
  let next = firstRank;
  for (;;) {
    const page = await api.messages(sessionId, { afterRank: next > 0 ? next - 1 : null, limit: PAGE });
    messages.push(...page.messages);
    next = (page.messages.at(-1)?.rank ?? Infinity) + 1;
    if (next >= endRank) return messages;
  }
}
