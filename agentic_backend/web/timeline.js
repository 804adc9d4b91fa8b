/**
 * What of an exchange is shown, in order: turns its messages, open blocks and activities into items.
 *
 * Pure. An item is `{kind, key, …}` with kind `user`, `final`, `thought`, `observation`, `plan`, `note`, `tool`,
 * `activity`, `human` or `error`; `streaming` is true while its text is being written. Keys stay the same when the
 * stored message replaces the text of its block.
 */

import { ONGOING, isOngoing } from "./transcript.js";

export function timeline(exchange) {
  const items = [question(exchange)];
  const results = toolResults(exchange);
  const activities = [...exchange.activities];
  for (const message of exchange.messages) {
    while (activities.length && activities[0].afterRank < message.rank) items.push(activityItem(activities.shift()));
    items.push(...messageItems(exchange, message, results));
  }
  items.push(...activities.map(activityItem));
  items.push(...openBlocks(exchange).map(blockItem));
  if (exchange.awaiting) items.push({ kind: "human", key: "human", request: exchange.awaiting });
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

/** The text of the user's message, to ask it again. */
export function askedText(exchange) {
  const message = exchange.messages.find(({ role }) => role === "user");
  return message ? textOf(message.parts) : (exchange.asked ?? "");
}

/** True when the exchange works on something of which nothing visible moves yet. */
export function isSilent(exchange) {
  if (exchange.status !== "running" && exchange.status !== "sending") return false;
  const written = openBlocks(exchange).some(({ text }) => text.trim());
  return !written && !timeline(exchange).some((item) => item.kind === "tool" && item.state === "running");
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

function messageItems(exchange, message, results) {
  const block = exchange.blockOf[message.rank];
  const key = block === undefined ? `rank:${message.rank}` : `block:${block}`;
  const item = { key, parts: message.parts, metadata: message.metadata ?? {}, message };
  if (message.role === "user") return [{ ...item, kind: "user", key: "question" }];
  switch (message.channel) {
    case "tool_call":
      return message.parts.map((part, index) =>
        part.type === "tool_call"
          ? toolItem(exchange, part, results.get(part.call_id))
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
  return { kind: "error", key, code: metadata.extras?.code ?? null, retryable: false, content: textOf(parts) };
}

function toolResults(exchange) {
  const entries = exchange.messages.flatMap(({ parts }) =>
    parts.filter(({ type }) => type === "tool_result").map((result) => [result.call_id, { result, parts }]),
  );
  return new Map(entries);
}

function toolItem(exchange, call, { result = null, parts } = {}) {
  return { kind: "tool", key: `call:${call.call_id}`, call, result, parts, state: callState(exchange, result) };
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
