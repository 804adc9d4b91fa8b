/** The tools of an MCP server, as its documents in the page call them. */

import { ApiError } from "../api.js";
import { approved } from "./approved.js";
import { Refused } from "./frame-host.js";

/**
 * The result of a call; `sessionId` and `rank` name the message that shows the document, which may be gone: then the page
 * shows another conversation, and the document is about to end.
 */
export async function appToolResult({ panels, sessionId, rank, approve, name, args }) {
  const isOpen = sessionId && sessionId === panels.store.state.conversation.sessionId;
  if (!isOpen || !Number.isInteger(rank)) throw new Refused("Nothing can be called now.");
  const path = `sessions/${encodeURIComponent(sessionId)}/messages/${rank}/app-calls`;
  const body = { tool: String(name), arguments: args };
  try {
    return (await approved((options) => panels.api.call("POST", path, { ...options, body }), approve)).result;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new Refused(error.content);
  }
}
