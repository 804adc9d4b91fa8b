/** The tools of an MCP server, as its documents in the page call them. */

import { ApiError } from "../api.js";
import { formatJson, visible, visibleLines } from "../format.js";
import { t } from "../i18n.js";
import { Refused } from "./frame-host.js";

/**
 * The result of a call, once the person has approved of it where that is needed. `rank` is that of the message that
 * shows the document.
 */
export async function appToolResult({ panels, rank, confirm, name, args }) {
  const { sessionId } = panels.store.state.conversation;
  if (!sessionId || !Number.isInteger(rank)) throw new Refused("Nothing can be called now.");
  const call = async (more) => {
    try {
      const path = `sessions/${encodeURIComponent(sessionId)}/messages/${rank}/app-calls`;
      return await panels.api.call("POST", path, { body: { tool: String(name), arguments: args, ...more } });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw new Refused(error.content);
    }
  };
  const { result, approval } = await call({});
  if (!approval) return result;
  const title = t("Approve of the call of “{tool}”?", { tool: visible(approval.title) });
  const text = [visible(approval.name), visibleLines(formatJson(args))].join("\n");
  if (!(await confirm({ title, text, confirm: t("Approve") }))) throw new Refused("The person does not approve of it.");
  return (await call({ approved: approval.args_sha256 })).result ?? {};
}
