/**
 * A conversation as its client knows it: what is stored, what is being written, and what runs.
 *
 * Pure: every function takes a transcript and returns a new one (or the same, if nothing changed); an exchange that
 * an event does not touch stays the same object, so that views can compare by identity. Invariants:
 * - messages of an exchange are in rank order and there is one per rank;
 * - a `seq` that was seen changes nothing, but for `started` and `reset`, which say that the server reads its log
 *   from there again, so that what follows is rebuilt rather than added a second time, and for the one `final`;
 * - nothing changes an exchange after its `final`, but for messages that were missing in it.
 */

/** @import { ChatMessage, ExchangeEvent, ExchangeStatus } from "@agentic-backend/client/protocol" */
/** @import { HumanRequests, Idle, ServerEvent, TokenUsage } from "@agentic-backend/client/protocol" */
/** @import { RecordedDecision } from "./approvals.js" */
/** @import { Kept } from "./asks.js" */
/** @import { ShownError, StoredActivity, TranscriptExchange } from "./transcript-exchange.js" */

import { awaiting, withRecordedDecisions } from "./approvals.js";
import {
  ONGOING,
  changedBy,
  isOngoing,
  lastRank,
  newExchange,
  withMessage,
  withMissing,
  withStoredActivities,
} from "./transcript-exchange.js";

/**
 * @typedef {object} Transcript
 * @property {readonly TranscriptExchange[]} exchanges  in the order of their ranks
 * @property {number} firstRank  where reading of stored messages began
 * @property {number} knownRank  the session's `next_rank`, as far as it is known
 */

/**
 * What `GET /exchanges/{id}` tells of an exchange.
 *
 * @typedef {object} ExchangeRecord
 * @property {string} id
 * @property {ExchangeStatus} status
 * @property {ShownError | null} [error]
 * @property {HumanRequests | null} [pending]
 * @property {readonly RecordedDecision[] | null} [decisions]
 */

/**
 * What `GET /sessions/{id}/exchanges` tells of one of them, beside what it shares with ExchangeRecord.
 *
 * @typedef {object} ListedFields
 * @property {string} agent_id
 * @property {string} [client_exchange_id]
 * @property {string} [resumes]
 * @property {boolean} resumable
 * @property {string} started_at
 * @property {string} [ended_at]
 * @property {TokenUsage} [usage]
 * @property {readonly StoredActivity[]} activities
 */

/** @typedef {ExchangeRecord & ListedFields} ListedExchange */

const ALWAYS_COUNT = new Set(["started", "reset", "final"]);

/** @returns {Transcript} */
export const newTranscript = () => ({ exchanges: [], firstRank: 0, knownRank: 0 });

/**
 * The exchange that keeps the session busy, or undefined.
 *
 * @param {Transcript} transcript
 */
export const ongoing = (transcript) => transcript.exchanges.find(isOngoing);

/**
 * Whether an event counts for who has seen its exchange up to `seq`.
 *
 * @param {ExchangeEvent} event
 * @param {number} seq
 */
export const counts = (event, seq) => event.seq > seq || ALWAYS_COUNT.has(event.type);

/**
 * The user has asked; shown at once, before the server has heard of it.
 *
 * @param {Transcript} transcript
 * @param {string} clientExchangeId
 * @param {string} text
 * @returns {Transcript}
 */
export function asked(transcript, clientExchangeId, text) {
  const id = `ask:${clientExchangeId}`;
  /** @type {TranscriptExchange} */
  const exchange = { ...newExchange(id), clientExchangeId, status: "sending", asked: text };
  return { ...transcript, exchanges: [...transcript.exchanges, exchange] };
}

/**
 * The ask was refused: it never happened.
 *
 * @param {Transcript} transcript
 * @param {string} clientExchangeId
 * @returns {Transcript}
 */
export function refused(transcript, clientExchangeId) {
  const exchanges = transcript.exchanges.filter(({ id }) => id !== `ask:${clientExchangeId}`);
  return { ...transcript, exchanges };
}

/**
 * The server can't take the ask now; it waits here.
 *
 * @param {Transcript} transcript
 * @param {string} clientExchangeId
 * @param {Kept} why
 */
export function kept(transcript, clientExchangeId, why) {
  return withExchange(transcript, `ask:${clientExchangeId}`, (exchange) => ({ ...exchange, kept: why }));
}

/**
 * Someone pressed Stop; the exchange goes on until its `final` says otherwise.
 *
 * @param {Transcript} transcript
 * @returns {Transcript}
 */
export function stopping(transcript) {
  const exchanges = transcript.exchanges.map((exchange) =>
    isOngoing(exchange) ? { ...exchange, stopping: true } : exchange,
  );
  return { ...transcript, exchanges };
}

/**
 * Merges messages read from the store. `knownRank` is the session's `next_rank`, `firstRank` where reading began;
 * `activeExchangeId` names the exchange that runs, if the session says so.
 *
 * @param {Transcript} transcript
 * @param {readonly ChatMessage[]} messages
 * @param {{ firstRank?: number, knownRank?: number, activeExchangeId?: string | null | undefined }} [known]
 * @returns {Transcript}
 */
export function stored(transcript, messages, { firstRank, knownRank = 0, activeExchangeId = null } = {}) {
  let exchanges = transcript.exchanges;
  for (const [id, own] of byExchange(messages)) {
    exchanges = update(exchanges, id, (exchange) =>
      exchange.final
        ? withMissing(exchange, own)
        : {
            ...exchange,
            messages: own.reduce(withMessage, exchange.messages),
            storedRank: Math.max(exchange.storedRank, lastRank(own)),
          },
    );
  }
  if (activeExchangeId) {
    exchanges = update(exchanges, activeExchangeId, (exchange) => ({
      ...exchange,
      status: exchange.status ?? "running",
    }));
  }
  return {
    exchanges: inRankOrder(exchanges),
    firstRank: firstRank ?? transcript.firstRank,
    knownRank: Math.max(transcript.knownRank, knownRank),
  };
}

/** @param {readonly ChatMessage[]} messages */
function byExchange(messages) {
  /** @type {Map<string, ChatMessage[]>} */
  const groups = new Map();
  for (const message of messages) {
    const group = groups.get(message.exchange_id);
    if (group) group.push(message);
    else groups.set(message.exchange_id, [message]);
  }
  return groups;
}

/**
 * What is known of the messages below a rank at which an exchange begins: the beginning of a branch from there.
 *
 * @param {Transcript} transcript
 * @param {number} rank
 * @returns {Transcript}
 */
export function below({ exchanges, firstRank }, rank) {
  const shared = exchanges.filter(({ messages: [first] }) => first && first.rank < rank);
  return { exchanges: shared, firstRank: Math.min(firstRank, rank), knownRank: rank };
}

/**
 * The rank after which stored messages are missing, or null when none are (-1: from the first).
 *
 * @param {Transcript} transcript
 */
export function missingAfter(transcript) {
  let expected = transcript.firstRank;
  for (const { messages } of transcript.exchanges) {
    for (const { rank } of messages) {
      if (rank > expected) return expected - 1;
      expected = Math.max(expected, rank + 1);
    }
  }
  return transcript.knownRank > expected ? expected - 1 : null;
}

/**
 * What the server's record of an exchange adds; but for decisions, nothing if an event of it came after `seq`.
 *
 * @param {Transcript} transcript
 * @param {ExchangeRecord} record
 * @param {number} seq
 * @returns {Transcript}
 */
export function checked(transcript, record, seq) {
  return withExchange(transcript, record.id, (known) => {
    const exchange = withRecordedDecisions(known, record.decisions ?? [], lastRank(known.messages));
    if (exchange.seq !== seq || exchange.final) return exchange;
    const { status, error = exchange.error, pending } = record;
    if (status === "awaiting_human" && pending) return awaiting(exchange, pending, lastRank(exchange.messages));
    return { ...exchange, status, error, awaiting: null, blocks: ONGOING.has(status) ? exchange.blocks : [] };
  });
}

/**
 * What the session's list of exchanges adds to those whose messages are known. How an exchange stands counts only as
 * long as no event of it has come. An ask that nothing has acknowledged, and that began one of them, is that exchange.
 *
 * @param {Transcript} transcript
 * @param {readonly ListedExchange[]} listed
 * @returns {Transcript}
 */
export function summarised(transcript, listed) {
  for (const record of listed) {
    const isKnown = transcript.exchanges.some(({ id }) => id === record.id);
    if (isKnown && record.client_exchange_id) transcript = refused(transcript, record.client_exchange_id);
    const known = withExchange(transcript, record.id, (exchange) =>
      withStoredActivities(
        {
          ...exchange,
          agentId: record.agent_id,
          resumes: record.resumes ?? null,
          clientExchangeId: record.client_exchange_id ?? exchange.clientExchangeId,
          startedAt: record.started_at,
          ...(record.ended_at !== undefined && { endedAt: record.ended_at }),
          ...(record.usage !== undefined && !exchange.final && { usage: record.usage }),
          ...(!exchange.final && { resumable: record.resumable }),
        },
        record.activities,
      ),
    );
    transcript = checked(known, record, 0);
  }
  return transcript;
}

/**
 * The transcript with another form of one exchange, if it is there.
 *
 * @param {Transcript} transcript
 * @param {string} id
 * @param {(exchange: TranscriptExchange) => TranscriptExchange} change
 * @returns {Transcript}
 */
export function withExchange(transcript, id, change) {
  const exchanges = transcript.exchanges.map((exchange) => (exchange.id === id ? change(exchange) : exchange));
  return { ...transcript, exchanges };
}

/**
 * True if the event belongs to an ask that waits to be acknowledged.
 *
 * @param {Transcript} transcript
 * @param {ServerEvent} event
 */
export const answersAsk = (transcript, event) =>
  isOfExchange(event) &&
  transcript.exchanges.some((exchange) => exchange.status === "sending" && begins(exchange, event));

/**
 * True if the event is of an exchange, and has its place in it.
 *
 * @param {ServerEvent} event
 * @returns {event is ExchangeEvent}
 */
export const isOfExchange = (event) => "seq" in event && Number.isInteger(event.seq) && Boolean(event.exchange_id);

/**
 * Applies a server event of this session.
 *
 * @param {Transcript} transcript
 * @param {ServerEvent} event
 * @returns {Transcript}
 */
export function applyEvent(transcript, event) {
  if (event.type === "idle") return settled(transcript, event);
  if (!isOfExchange(event)) return transcript;
  const exchange = concerned(transcript, event);
  if (exchange.final || !counts(event, exchange.seq)) return transcript;
  const changed = changedBy(exchange, event);
  const next = { ...changed, id: event.exchange_id, seq: event.seq };
  const asks = transcript.exchanges.filter((other) => other.status === "sending" && begins(other, event));
  const superseded = new Set([exchange.id, next.id, ...asks.map(({ id }) => id)]);
  const others = transcript.exchanges.filter(({ id }) => !superseded.has(id));
  const place = transcript.exchanges.findIndex(({ id }) => id === exchange.id);
  others.splice(place < 0 ? others.length : place, 0, next);
  return { ...transcript, exchanges: changed.messages === exchange.messages ? others : inRankOrder(others) };
}

/**
 * Nothing runs: an exchange whose end was missed has ended, and the store tells how.
 *
 * @param {Transcript} transcript
 * @param {Idle} idle
 * @returns {Transcript}
 */
function settled(transcript, { next_rank: nextRank = 0 }) {
  const exchanges = transcript.exchanges.map((exchange) =>
    exchange.status === "running" || exchange.status === "awaiting_human"
      ? { ...exchange, blocks: [], progress: null, awaiting: null, status: null }
      : exchange,
  );
  return { ...transcript, exchanges, knownRank: Math.max(transcript.knownRank, nextRank) };
}

/**
 * The exchange an event is about: known by its id, or the ask that began it, or new.
 *
 * @param {Transcript} transcript
 * @param {ExchangeEvent} event
 */
function concerned({ exchanges }, event) {
  return (
    exchanges.find(({ id }) => id === event.exchange_id) ??
    exchanges.find((exchange) => exchange.status === "sending" && begins(exchange, event)) ??
    newExchange(event.exchange_id)
  );
}

/**
 * `started` names the ask that it answers. An ask that was sent again may find only the `final` or a `reset` of its
 * exchange left: then the text of the user's message tells.
 *
 * @param {Pick<TranscriptExchange, "clientExchangeId" | "asked">} ask
 * @param {ExchangeEvent} event
 */
export function begins(ask, event) {
  const named = clientExchangeIdOf(event);
  if (named) return named === ask.clientExchangeId;
  if (event.type !== "final" && event.type !== "reset") return false;
  const question = event.messages.find(({ role }) => role === "user");
  return question?.parts.some((part) => part.type === "text" && part.text === ask.asked) ?? false;
}

/** @param {ExchangeEvent} event */
const clientExchangeIdOf = (event) => (event.type === "started" ? event.client_exchange_id : undefined);

/**
 * @param {readonly TranscriptExchange[]} exchanges
 * @param {string} id
 * @param {(exchange: TranscriptExchange) => TranscriptExchange} change
 */
function update(exchanges, id, change) {
  const index = exchanges.findIndex((exchange) => exchange.id === id);
  const known = exchanges[index];
  return known ? exchanges.with(index, change(known)) : [...exchanges, change(newExchange(id))];
}

/**
 * A session runs one exchange at a time, so the first rank orders them; one without messages is the newest.
 *
 * @param {readonly TranscriptExchange[]} exchanges
 */
function inRankOrder(exchanges) {
  /** @param {TranscriptExchange} exchange */
  const firstRank = ({ messages }) => messages[0]?.rank ?? Infinity;
  return exchanges.toSorted((a, b) => {
    const [first, second] = [firstRank(a), firstRank(b)];
    return first === second ? 0 : first - second;
  });
}
