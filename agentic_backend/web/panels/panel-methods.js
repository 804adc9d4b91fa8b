/**
 * What a panel may ask of the page: to call its application, and what its `may` says.
 *
 * What acts in the person's name, an ask, a decision or a link, has to be begun by the person in the panel itself; a
 * decision and a link are shown to them before.
 */

import { openApprovals, requestKey } from "../client/approvals.js";
import { ongoing } from "../client/transcript.js";
import { brand } from "../brand.js";
import { allowedOf } from "../decisions.js";
import { formatJson, visible, visibleLines } from "../format.js";
import { t } from "../i18n.js";
import { safeHref, withHonestHosts } from "../links.js";
import { appToolResult } from "./app-tools.js";
import { toolResult } from "./application-calls.js";
import { Refused } from "./frame-host.js";
import { hostContext } from "./host-context.js";
import { isObject } from "./plain-json.js";

const PROTOCOL = "2026-01-26";
const LONGEST_ASK = 20_000;
/** Files of one panel that are sent at once. */
const MOST_UPLOADS = 4;

/**
 * `begins()` resolves to whether a person has begun it, `confirm({title, text, confirm})` asks them, `allowed()`
 * returns the hosts that the frame allows, `context` is the AppContext of a document that has one, `onHeight` is told how high
 * the panel is, `follow()` has it hear of the conversation, `takeDrop()` resolves to what is dropped on it, see DropCover.
 */
export function methodsOf({ panel, panels, frame, displayMode, allowed, context, begins, confirm, onHeight, follow, takeDrop }) {
  const may = (what) => {
    if (!panel.may.includes(what)) throw new Refused(`This panel may not ${what}.`);
  };
  const begun = async (withinMs) => {
    if (!(await begins(withinMs))) throw new Refused("A person has to begin this in the panel.");
  };
  const approve = { begun, confirm };
  const mostBytes = panels.store.state.limits?.attachment_bytes ?? 0;
  let uploads = 0;
  /** What `call` resolves to, which sends this file; null: none. */
  const sending = async (upload, call) => {
    if (!upload) return call();
    if (!(upload instanceof File)) throw new Refused("An upload is a File.");
    if (upload.size > mostBytes) throw new Refused(`A file has at most ${mostBytes} bytes.`);
    if (uploads >= MOST_UPLOADS) throw new Refused("Too many files at once.");
    uploads += 1;
    try {
      return await call();
    } finally {
      uploads -= 1;
    }
  };
  const requests = {
    "ui/initialize": () => ({
      protocolVersion: PROTOCOL,
      hostInfo: { name: brand.name, version: "1.0.0" },
      hostCapabilities: {
        openLinks: {},
        serverTools: {},
        sandbox: { permissions: {}, csp: allowed() },
        ...(panel.may.includes("ask") && { message: { text: {} } }),
        ...(!panel.isOfTool && { experimental: { uploads: { most_bytes: mostBytes, most_at_once: MOST_UPLOADS } } }),
        ...(context?.isPossible && { updateModelContext: { text: {}, structuredContent: {} } }),
      },
      hostContext: {
        ...hostContext(frame, displayMode),
        // Of the tool's schema the page knows no more.
        ...(panel.isOfTool && { toolInfo: { tool: { name: panel.tool, inputSchema: { type: "object" } } } }),
      },
    }),
    ping: () => ({}),
    "ui/request-display-mode": () => ({ mode: displayMode }),
    async "tools/call"({ name, arguments: given }, upload) {
      const args = isObject(given) ? given : {};
      if (panel.isOfTool) {
        if (upload) throw new Refused("The call takes no file.");
        return appToolResult({ panels, sessionId: panel.sessionId, rank: panel.rank, approve, name, args });
      }
      // One that is no file, whatever it looks like, has stayed among the arguments.
      if ("upload" in args) throw new Refused("An upload is a File.");
      return sending(upload, async () =>
        toolResult({ api: panels.api, calls: await panels.calls(panel), approve, name, args, upload }),
      );
    },
    async "ui/open-link"({ url }) {
      const href = typeof url === "string" ? safeHref(url) : null;
      if (!href) throw new Refused("This is no address of the web.");
      await begun();
      const text = withHonestHosts(visible(href));
      if (await confirm({ title: t("Open this link?"), text, confirm: t("Open") })) open(href, "_blank", "noopener,noreferrer");
      else throw new Refused("The person does not open it.");
      return {};
    },
    async "ui/message"({ role, content }) {
      may("ask");
      const text = role === "user" ? textOf(content) : "";
      if (!text.trim() || text.length > LONGEST_ASK) throw new Refused("A message is a text of the user's.");
      await begun();
      const file = await context?.file();
      const read = [visibleLines(text), file && t("With {file}", { file: visible(file.name) })].filter(Boolean).join("\n\n");
      if (panel.asksFirst && !(await confirm({ title: t("Send this message?"), text: read, confirm: t("Send") })))
        throw new Refused("The person does not send it.");
      if (!panels.conversation.askText(text, file ? [file] : [])) throw new Refused("Nothing can be asked now.");
      if (file) context.take(file);
      return {};
    },
    ...(context && { "ui/update-model-context": (told) => context.tell(told) }),
    ...(!panel.isOfTool && { "agentic/take-drop": takeDrop }),
    "agentic/follow"() {
      may("follow");
      follow();
      return {};
    },
    async "agentic/decide"({ decisions }) {
      may("decide");
      await begun();
      const exchange = ongoing(panels.store.state.conversation.transcript);
      const made = exchange?.status === "awaiting_human" ? madeOf(exchange, decisions) : null;
      if (!made) throw new Refused("Nothing that is open can be decided so.");
      const title = t("Decide this?");
      if (!(await confirm({ title, text: made.map(wordsOf).join("\n\n"), confirm: t("Decide") })))
        throw new Refused("The person does not decide so.");
      // Meanwhile another conversation may be open.
      if (ongoing(panels.store.state.conversation.transcript)?.id !== exchange.id)
        throw new Refused("What was to be decided is no longer open.");
      panels.conversation.decide(exchange, made);
      return {};
    },
  };
  const notifications = {
    "ui/notifications/size-changed": ({ height }) => Number.isFinite(height) && onHeight(height),
  };
  return { requests: new Map(Object.entries(requests)), notifications: new Map(Object.entries(notifications)) };
}

const textOf = (content) =>
  (Array.isArray(content) ? content : [content])
    .map((block) => (block?.type === "text" && typeof block.text === "string" ? block.text : ""))
    .join("");

/** `[{request, decision}]` for what is open and may be decided so; null if anything may not. */
function madeOf(exchange, decisions) {
  if (!Array.isArray(decisions) || !decisions.length) return null;
  const open = new Map(openApprovals(exchange).map(({ key, request }) => [key, request]));
  const made = decisions.map((given) => {
    const request = isObject(given) ? open.get(requestKey({ interrupt_id: given.interrupt_id, call_id: given.call_id })) : null;
    return request && { request, decision: decisionOf(request, given) };
  });
  const isWhole = made.every((each) => each?.decision) && new Set(made.map(({ request }) => request)).size === made.length;
  return isWhole ? made : null;
}

function decisionOf(request, { action, message, args, answer }) {
  if (!request.name) return action === "answer" && answer !== undefined ? { action, answer } : null;
  if (!allowedOf(request).includes(action)) return null;
  if (action === "edit") return isObject(args) ? { action, args } : null;
  return action === "reject" && typeof message === "string" ? { action, message } : { action };
}

/** All that counts of a decision, for the person to read. */
function wordsOf({ request, decision }) {
  if (decision.action === "answer") {
    const { question = "", value, choices = [] } = request;
    // What a question is about may stand beside its words.
    const about = typeof value === "object" && value ? visibleLines(formatJson(value)) : "";
    const label = choices.find(({ id }) => id === decision.answer)?.label;
    const answer = visibleLines(label ?? formatJson(decision.answer));
    return [visibleLines(question), about, t("Answer: {answer}", { answer })].filter(Boolean).join("\n");
  }
  const args = visibleLines(formatJson(decision.args ?? request.args));
  const words = decision.message && visibleLines(decision.message);
  return [`${DECISIONS[decision.action]}: ${visible(request.name)}`, args, words].filter(Boolean).join("\n");
}

const DECISIONS = { approve: t("Approve"), edit: t("Edit"), reject: t("Reject") };
