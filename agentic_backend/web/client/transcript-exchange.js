/**
 * One exchange of a transcript, and what each event of it changes.
 *
 * Pure, as transcript.js, which knows which events count.
 */

/** @import { Activity, Channel, ChatMessage, Delta, ErrorInfo, ExchangeError } from "@agentic-backend/client/protocol" */
/** @import { ExchangeEvent, ExchangeStatus, Final, Reset, Started } from "@agentic-backend/client/protocol" */
/** @import { Stream, TokenUsage } from "@agentic-backend/client/protocol" */
/** @import { Approvable } from "./approvals.js" */
/** @import { Kept } from "./asks.js" */

import { awaiting } from "./approvals.js";

/** @typedef {Partial<ErrorInfo> & Pick<ErrorInfo, "code" | "content" | "retryable">} ShownError */

/** @typedef {{ readonly seq: number, readonly after_rank: number, readonly kind: Activity["kind"], readonly data: Progress }} StoredActivity */

/** @typedef {{ readonly block: number, readonly channel: Channel, readonly text: string }} Block  being written */

/** @typedef {Pick<Activity, "seq" | "kind"> & { readonly data: Progress, readonly afterRank: number }} ShownActivity */

/** @typedef {Readonly<Record<string, any>>} Progress  what an agent tells in an activity */

/**
 * @typedef {object} OwnFields
 * @property {string} id         the exchange's id, or `ask:<client_exchange_id>` until the server has named it
 * @property {string} key        stays the same when the id becomes known
 * @property {string | null} clientExchangeId  of an ask that was made here
 * @property {ExchangeStatus | "sending" | null} status  null: it has ended, and the messages tell how
 * @property {boolean} [stopping]  its user has said that it shall stop
 * @property {string | null} asked  the text of an ask whose stored message has not come yet
 * @property {Kept | null} kept  why that ask waits here
 * @property {string} [agentId]
 * @property {string | null} resumes  the id of the interrupted exchange that this one continues
 * @property {boolean} [resumable]  of an interrupted one: whether it can be continued; absent while nobody knows
 * @property {string} [startedAt]  when it began (RFC 3339), as far as the store has told
 * @property {string} [endedAt]
 * @property {number} seq        the last seq seen
 * @property {boolean} final     its `final` was seen
 * @property {readonly ChatMessage[]} messages  stored messages
 * @property {readonly Block[]} blocks  messages being written
 * @property {Readonly<Record<number, number>>} blockOf  rank to the block whose deltas it replaced
 * @property {readonly ShownActivity[]} activities  those that stay beside the answer
 * @property {Progress | null} progress  what the agent is doing
 * @property {ShownError | null} error
 * @property {TokenUsage} [usage]
 * @property {number} storedRank   the highest rank learned from the store
 * @property {number} streamedRank the highest rank learned from events
 */

/** @typedef {Readonly<OwnFields & Approvable>} TranscriptExchange */

/** @type {ReadonlySet<TranscriptExchange["status"]>} */
export const ONGOING = new Set(["sending", "running", "awaiting_human"]);

/** @param {TranscriptExchange} exchange */
export const isOngoing = (exchange) => ONGOING.has(exchange.status);

/**
 * The exchange after an event of it that counts.
 *
 * @param {TranscriptExchange} exchange
 * @param {ExchangeEvent} event
 * @returns {TranscriptExchange}
 */
export function changedBy(exchange, event) {
  switch (event.type) {
    case "started":
      return begun(exchange, event);
    case "stream":
      return withStored(exchange, event);
    case "delta":
      return withText(exchange, event);
    case "activity":
      return withActivity(exchange, event);
    case "awaiting_human":
      return awaiting(exchange, event.payload, lastRank(exchange.messages));
    case "error":
      return failed(exchange, event);
    case "reset":
      return shownAnew(exchange, event);
    case "final":
      return ended(exchange, event);
    default:
      // A type of event that this version doesn't know.
      return exchange;
  }
}

/** @type {(exchange: TranscriptExchange, event: Started) => TranscriptExchange} */
const begun = (exchange, event) => ({
  ...exchange,
  ...NOTHING_SHOWN,
  status: "running",
  kept: null,
  agentId: event.agent_id,
  resumes: event.resumes ?? null,
  streamedRank: -1,
  storedRank: lastRank(exchange.messages),
});

/** @type {(exchange: TranscriptExchange, event: Stream) => TranscriptExchange} */
function withStored(exchange, { message, block }) {
  const written = block !== undefined && block !== null;
  return {
    ...goingOn(exchange),
    messages: withMessage(exchange.messages, message),
    blocks: written ? exchange.blocks.filter((open) => open.block !== block) : exchange.blocks,
    blockOf: written ? { ...exchange.blockOf, [message.rank]: block } : exchange.blockOf,
    streamedRank: Math.max(exchange.streamedRank, message.rank),
    progress: null,
  };
}

/** @type {(exchange: TranscriptExchange, event: Delta) => TranscriptExchange} */
function withText(exchange, { block, channel, text }) {
  const open = exchange.blocks.find((candidate) => candidate.block === block);
  const blocks = open
    ? exchange.blocks.map((other) => (other === open ? { block, channel, text: open.text + text } : other))
    : [...exchange.blocks, { block, channel, text }].sort((a, b) => a.block - b.block);
  return { ...goingOn(exchange), blocks };
}

/** @type {(exchange: TranscriptExchange, event: Activity) => TranscriptExchange} */
function withActivity(exchange, { kind, data: told, seq }) {
  /** @type {Progress} */
  const data = told;
  const stays = kind !== "progress" || data?.kept === true;
  if (!stays) return { ...goingOn(exchange), progress: data };
  const activity = { seq, kind, data, afterRank: lastRank(exchange.messages) };
  return { ...goingOn(exchange), activities: withShown(exchange.activities, activity) };
}

/** @type {(activities: readonly ShownActivity[], activity: ShownActivity) => readonly ShownActivity[]} */
function withShown(activities, activity) {
  const place = activities.findIndex((earlier) => isAboutSameLine(earlier, activity.kind, activity.data));
  const earlier = activities[place];
  if (earlier) return activities.with(place, { ...earlier, data: activity.data });
  return activities.some(({ seq }) => seq === activity.seq) ? activities : [...activities, activity];
}

/**
 * The exchange with the activities that the store has kept of it, among those that were seen.
 *
 * @type {(exchange: TranscriptExchange, stored: readonly StoredActivity[]) => TranscriptExchange}
 */
export function withStoredActivities(exchange, stored) {
  const told = stored.map(({ seq, after_rank: afterRank, kind, data }) => ({ seq, afterRank, kind, data }));
  const activities = [...exchange.activities, ...told]
    .sort((a, b) => a.seq - b.seq)
    .reduce(withShown, /** @type {readonly ShownActivity[]} */ ([]));
  return { ...exchange, activities };
}

/** @type {(exchange: TranscriptExchange, event: ExchangeError) => TranscriptExchange} */
const failed = (exchange, { code, content, retryable, request_id, detail }) => ({
  ...exchange,
  error: { code, content, retryable, request_id, ...(detail && { detail }) },
});

/** @type {(exchange: TranscriptExchange, event: Reset) => TranscriptExchange} */
const shownAnew = (exchange, { messages, partial, seq }) => ({
  ...exchange,
  ...NOTHING_SHOWN,
  // What follows comes after this place, so that none of them comes a second time.
  activities: exchange.activities.filter((activity) => activity.seq <= seq),
  status: "running",
  messages: inOrder(messages),
  blocks: partial.map(({ block, channel, text }) => ({ block, channel, text })),
  streamedRank: lastRank(messages),
  storedRank: lastRank(messages),
});

/** @type {(exchange: TranscriptExchange, event: Final) => TranscriptExchange} */
const ended = (exchange, { status, messages, usage, error, resumable = exchange.resumable }) => ({
  ...exchange,
  status,
  ...(resumable !== undefined && { resumable }),
  final: true,
  messages: inOrder(messages),
  blocks: [],
  progress: null,
  awaiting: null,
  error: error ?? exchange.error,
  usage,
  streamedRank: lastRank(messages),
  storedRank: lastRank(messages),
});

/** @satisfies {Partial<TranscriptExchange>} */
const NOTHING_SHOWN = { blocks: [], activities: [], progress: null, awaiting: null, error: null };

/** @type {(id: string) => TranscriptExchange} */
export const newExchange = (id) => ({
  ...NOTHING_SHOWN,
  id,
  key: id,
  clientExchangeId: null,
  status: null,
  asked: null,
  kept: null,
  resumes: null,
  requests: [],
  decisions: {},
  refusals: {},
  seq: 0,
  final: false,
  messages: [],
  blockOf: {},
  storedRank: -1,
  streamedRank: -1,
});

/**
 * Whether both say that this line of the agent has blocked the server.
 *
 * @type {(earlier: ShownActivity, kind: Activity["kind"], data: Progress) => boolean}
 */
const isAboutSameLine = (earlier, kind, data) =>
  earlier.kind === kind &&
  earlier.data?.line === data?.line &&
  [earlier.data, data].every((told) => told && "blocked_ms" in told);

/**
 * A paused exchange that writes again has got its answer.
 *
 * @type {(exchange: TranscriptExchange) => TranscriptExchange}
 */
const goingOn = (exchange) => ({ ...exchange, status: "running", awaiting: null });

/**
 * A large exchange's `final` may have only its first and its last messages; those between come from the store.
 *
 * @type {(exchange: TranscriptExchange, messages: readonly ChatMessage[]) => TranscriptExchange}
 */
export function withMissing(exchange, messages) {
  const ranks = new Set(exchange.messages.map(({ rank }) => rank));
  const missing = messages.filter(({ rank }) => !ranks.has(rank));
  return missing.length ? { ...exchange, messages: missing.reduce(withMessage, exchange.messages) } : exchange;
}

/** @type {(messages: readonly ChatMessage[], message: ChatMessage) => readonly ChatMessage[]} */
export function withMessage(messages, message) {
  const rest = messages.filter(({ rank }) => rank !== message.rank);
  const after = rest.findIndex(({ rank }) => rank > message.rank);
  return rest.toSpliced(after < 0 ? rest.length : after, 0, message);
}

/** @param {readonly ChatMessage[]} messages */
const inOrder = (messages) => messages.reduce(withMessage, /** @type {readonly ChatMessage[]} */ ([]));

/** @param {readonly ChatMessage[]} messages */
export const lastRank = (messages) => messages.reduce((highest, { rank }) => Math.max(highest, rank), -1);
