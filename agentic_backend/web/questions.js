/** What an exchange was asked, to ask it again elsewhere. */

import { attachedTo } from "./attached.js";
import { askedText } from "./timeline.js";

/**
 * Where and what was asked that an exchange of the transcript answers: `{rank, text, attachments, agentId}`. An exchange
 * that goes on with another one answers what was asked there. Null where that is not known.
 */
export function questionOf({ exchanges }, exchange) {
  const rank = rankOf(exchange);
  if (rank === null) return null;
  const former = exchange.messages[0].metadata?.extras?.resumes;
  if (former) {
    const interrupted = exchanges.find(({ id }) => id === former);
    return interrupted ? questionOf({ exchanges }, interrupted) : null;
  }
  return {
    rank,
    text: askedText(exchange),
    attachments: attachedTo(exchange.messages[0].parts),
    agentId: exchange.agentId ?? null,
  };
}

/** The rank at which an exchange begins; null where that is not known yet, or nothing of it is stored. */
export function rankOf({ messages }) {
  const [first] = messages;
  return first?.role === "user" && first.session_id ? first.rank : null;
}
