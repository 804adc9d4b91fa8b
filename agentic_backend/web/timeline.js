/**
 * What of an exchange is shown, in order: turns its messages, open blocks and activities into items.
 *
 * Pure. An item is `{kind, key, …}` with kind `user`, `continued`, `final`, `thought`, `observation`, `plan`, `note`,
 * `tool`, `approval`, `activity` or `error`; `streaming` is true while its text is being written. Keys stay the same
 * when the stored message replaces the text of its block. A call that waits for a person is an `approval` until that
 * has been settled, and then the `tool` that it was before.
 */

import { attachedTo } from "./attached.js";
import { approvals } from "./client/approvals.js";
import { ONGOING, isOngoing } from "./client/transcript-exchange.js";

export function timeline(exchange) {
  const items = [question(exchange)];
  const calls = { results: toolResults(exchange), approvals: callApprovals(exchange) };
  const asides = [...exchange.activities, ...asidesOf(exchange, calls.approvals)];
  asides.sort((a, b) => a.afterRank - b.afterRank);
  for (const message of exchange.messages) {
    while (asides.length && asides[0].afterRank < message.rank) items.push(asideItem(asides.shift()));
    items.push(...messageItems(exchange, message, calls));
  }
  items.push(...asides.map(asideItem));
  items.push(...openBlocks(exchange).map(blockItem));
  if (exchange.error) items.push({ kind: "error", key: "error", ...exchange.error });
  const shown = items.filter(Boolean);
  if (outcome(exchange) === "error" && !shown.some(({ kind }) => kind === "error"))
    shown.push({ kind: "error", key: "error" });
  return shown;
}

/** How the exchange ended; what was read from the store says it in its messages. Null while it goes on. */
export function outcome(exchange) {
  if (isOngoing(exchange)) return null;
  if (exchange.status) return exchange.status;
  const last = exchange.messages.findLast(({ role, channel }) => role === "assistant" && channel === "final");
  if (last?.metadata?.finish_reason === "cancelled") return "stopped";
  if (exchange.messages.some(({ channel }) => channel === "error")) return "error";
  return last ? "ok" : "unanswered";
}

/** Whether an exchange with this ending may rest on more than the model's own words, or has met an objection. */
export function hasGrounds({ messages }, ending) {
  const parts = messages.flatMap((message) => message.parts);
  return (
    ending === "blocked" ||
    parts.some(({ type, kind }) => type === "tool_call" || (type === "link" && kind === "citation")) ||
    messages.some(({ metadata }) => metadata?.sources?.length || metadata?.finish_reason === "content_filter") ||
    messages.some(({ metadata }) => metadata?.extras?.changed_by)
  );
}

/** The text of the user's message, to ask it again. */
export function askedText(exchange) {
  const message = exchange.messages.find(({ role }) => role === "user");
  return message ? textOf(message.parts) : (exchange.asked ?? "");
}

/** The files that belong to the user's message, to ask with them again. */
export function askedFiles(exchange) {
  const message = exchange.messages.find(({ role }) => role === "user");
  return message ? attachedTo(message.parts) : [];
}

/** True when the exchange, whose timeline has these items, works on something of which nothing visible moves yet. */
export function isSilent(exchange, items) {
  if (exchange.status !== "running" && exchange.status !== "sending") return false;
  const written = openBlocks(exchange).some(({ text }) => text.trim());
  return !written && !items.some((item) => item.kind === "tool" && item.state === "running");
}

export const textOf = (parts) =>
  parts
    .filter(({ type }) => type === "text")
    .map(({ text }) => text)
    .join("\n\n");

function question(exchange) {
  if (exchange.asked === null || exchange.messages.some(({ role }) => role === "user")) return null;
  return { kind: "user", key: "question", parts: [{ type: "text", text: exchange.asked }] };
}

function messageItems(exchange, message, calls) {
  const block = exchange.blockOf[message.rank];
  const key = block === undefined ? `rank:${message.rank}` : `block:${block}`;
  const metadata = message.metadata ?? {};
  const agent = metadata.extras?.agent ?? metadata.agent_id ?? exchange.agentId;
  const item = { key, parts: message.parts, metadata, message, agent, at: message.timestamp };
  if (message.role === "user") {
    return [{ ...item, kind: message.metadata?.extras?.resumes ? "continued" : "user", key: "question" }];
  }
  switch (message.channel) {
    case "tool_call":
      return message.parts.map((part, index) =>
        part.type === "tool_call"
          ? { ...callItem(exchange, part, calls), agent, at: message.timestamp }
          : { ...item, kind: "observation", key: `${key}:${index}`, parts: [part] },
      );
    case "tool_result":
      return [];
    case "error":
      // The error event says the same and more.
      return exchange.error ? [] : [storedError(item)];
    case "thought":
    case "observation":
    case "plan":
    case "final":
      return [{ ...item, kind: message.channel }];
    default:
      return [{ ...item, kind: "note" }];
  }
}

function storedError({ key, parts, metadata }) {
  const { code = null, request_id: requestId } = metadata.extras ?? {};
  return { kind: "error", key, code, request_id: requestId, retryable: false, content: textOf(parts) };
}

function toolResults(exchange) {
  const entries = exchange.messages.flatMap(({ parts, timestamp, rank }) =>
    parts
      .filter(({ type }) => type === "tool_result")
      .map((result) => [result.call_id, { result, parts: ranked(parts, rank), endedAt: timestamp }]),
  );
  return new Map(entries);
}

/** What has a form of its own may ask for more by the rank of its message. */
const ranked = (parts, rank) => parts.map((part) => (part.type === "custom" ? { ...part, rank } : part));

/** Of each call in the exchange's messages that a person is or was asked about: what became of that. */
function callApprovals(exchange) {
  const called = exchange.messages.flatMap(({ parts }) => parts.filter(({ type }) => type === "tool_call"));
  const ids = new Set(called.map(({ call_id: id }) => id));
  return new Map(
    approvals(exchange)
      .filter(({ request }) => ids.has(request.call_id))
      .map((approval) => [approval.request.call_id, approval]),
  );
}

/** What a person is or was asked about anything else. */
function asidesOf(exchange, ofCalls) {
  return approvals(exchange)
    .filter(({ request }) => !ofCalls.has(request.call_id))
    .map((approval) => ({ approval, afterRank: approval.afterRank }));
}

const asideItem = ({ approval, ...activity }) => (approval ? approvalItem(approval) : activityItem(activity));

const approvalItem = (approval) => ({ kind: "approval", key: `approval:${approval.key}`, approval });

function callItem(exchange, call, { results, approvals: asked }) {
  const { result = null, parts, endedAt } = results.get(call.call_id) ?? {};
  const approval = asked.get(call.call_id);
  if (approval && approval.state !== "settled") return { ...approvalItem(approval), call };
  const decision = approval?.decision ?? null;
  const state = callState(exchange, result);
  const request = approval?.request ?? null;
  return { kind: "tool", key: `call:${call.call_id}`, call, result, parts, state, decision, request, endedAt };
}

function callState({ status }, result) {
  if (result) return result.ok === false ? "failed" : "ok";
  if (status === "awaiting_human") return "waiting";
  return ONGOING.has(status) ? "running" : "missing";
}

/**
 * The blocks whose text no stored message shows yet. While a replay has not passed what was read from the store,
 * that can't be told: then none.
 */
function openBlocks(exchange) {
  return exchange.streamedRank < exchange.storedRank ? [] : exchange.blocks;
}

const WRITTEN_AS = { thought: "thought", observation: "observation", plan: "plan", final: "final" };

function blockItem({ block, channel, text }) {
  const kind = WRITTEN_AS[channel];
  if (!kind || !text.trim()) return null;
  return { kind, key: `block:${block}`, parts: [{ type: "text", text }], metadata: {}, streaming: true };
}

const activityItem = ({ seq, kind, data }) => ({ kind: "activity", key: `activity:${seq}`, activity: kind, data });
