/** The tools of an MCP server, as its documents in the page call them. */

import { ApiError } from "../api.js";
import { approved } from "./approved.js";
import { Refused } from "./frame-host.js";

/** The result of a call; `rank` is that of the message that shows the document. */
export async function appToolResult({ panels, rank, confirm, name, args }) {
  const { sessionId } = panels.store.state.conversation;
  if (!sessionId || !Number.isInteger(rank)) throw new Refused("Nothing can be called now.");
  const path = `sessions/${encodeURIComponent(sessionId)}/messages/${rank}/app-calls`;
  const body = { tool: String(name), arguments: args };
  try {
    return (await approved((options) => panels.api.call("POST", path, { ...options, body }), confirm)).result;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new Refused(error.content);
  }
}
