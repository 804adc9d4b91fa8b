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
import { formatJson, visible } from "../format.js";
import { t } from "../i18n.js";
import { safeHref, withHonestHosts } from "../links.js";
import { shortcutOf } from "../shortcuts.js";
import { toolResult } from "./application-calls.js";
import { Refused } from "./frame-host.js";
import { hostContext } from "./host-context.js";

const PROTOCOL = "2026-01-26";
const LONGEST_ASK = 20_000;

/** `confirm({title, text, confirm})` asks the person, `onHeight` is told how high the panel is. */
export function methodsOf({ panel, panels, frame, displayMode, confirm, onHeight, follow }) {
  const may = (what) => {
    if (!panel.may.includes(what)) throw new Refused(`This panel may not ${what}.`);
  };
  const begun = () => {
    const isInPanel = document.activeElement === frame && navigator.userActivation?.isActive;
    if (!isInPanel) throw new Refused("A person has to begin this in the panel.");
  };
  const requests = {
    "ui/initialize": () => ({
      protocolVersion: PROTOCOL,
      hostInfo: { name: brand.name, version: "1.0.0" },
      hostCapabilities: { openLinks: {}, serverTools: {}, ...(panel.may.includes("ask") && { message: { text: {} } }) },
      hostContext: hostContext(frame, displayMode),
    }),
    ping: () => ({}),
    "ui/request-display-mode": () => ({ mode: displayMode }),
    async "tools/call"({ name, arguments: given }) {
      return toolResult(panels.api, await panels.calls(panel), name, isObject(given) ? given : {});
    },
    async "ui/open-link"({ url }) {
      const href = typeof url === "string" ? safeHref(url) : null;
      if (!href) throw new Refused("This is no address of the web.");
      begun();
      const text = withHonestHosts(visible(href));
      if (await confirm({ title: t("Open this link?"), text, confirm: t("Open") })) open(href, "_blank", "noopener,noreferrer");
      else throw new Refused("The person does not open it.");
      return {};
    },
    "ui/message"({ role, content }) {
      may("ask");
      const text = role === "user" ? textOf(content) : "";
      if (!text.trim() || text.length > LONGEST_ASK) throw new Refused("A message is a text of the user's.");
      begun();
      if (!panels.conversation.send(text)) throw new Refused("Nothing can be asked now.");
      return {};
    },
    "agentic/follow"() {
      may("follow");
      follow();
      return {};
    },
    async "agentic/decide"({ decisions }) {
      may("decide");
      begun();
      const exchange = ongoing(panels.store.state.conversation.transcript);
      const made = exchange?.status === "awaiting_human" ? madeOf(exchange, decisions) : null;
      if (!made) throw new Refused("Nothing that is open can be decided so.");
      const title = t("Decide this?");
      if (!(await confirm({ title, text: made.map(wordsOf).join("\n"), confirm: t("Decide") })))
        throw new Refused("The person does not decide so.");
      panels.conversation.decide(exchange, made);
      return {};
    },
  };
  const notifications = {
    "ui/notifications/size-changed": ({ height }) => Number.isFinite(height) && onHeight(height),
    "agentic/notifications/key-pressed": (pressed) => document.activeElement === frame && pass(pressed, frame),
  };
  return { requests: new Map(Object.entries(requests)), notifications: new Map(Object.entries(notifications)) };
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

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
  return {
    action,
    ...(typeof message === "string" && { message }),
    ...(action === "edit" && isObject(args) && { args }),
  };
}

/** What the person is shown before it counts. */
function wordsOf({ request, decision }) {
  if (decision.action === "answer") return t("Answer: {answer}", { answer: visible(formatJson(decision.answer)) });
  const args = visible(formatJson(decision.args ?? request.args));
  return `${DECISIONS[decision.action] ?? decision.action}: ${visible(request.name)} ${args}`;
}

const DECISIONS = { approve: t("Approve"), edit: t("Edit"), reject: t("Reject"), respond: t("Answer") };

/** A key that the panel has left alone does what it does in the page. */
function pass({ key, ctrlKey, metaKey, altKey, shiftKey, isTyping }, frame) {
  if (typeof key !== "string" || isTyping) return;
  const event = new KeyboardEvent("keydown", { key, ctrlKey, metaKey, altKey, shiftKey, bubbles: true, cancelable: true });
  Object.defineProperty(event, "target", { value: frame });
  if (shortcutOf(event)) frame.dispatchEvent(event);
}
