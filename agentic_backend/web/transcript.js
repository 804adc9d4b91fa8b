/**
 * A conversation as the page knows it: what is stored, what is being written, and what runs.
 *
 * Pure: every function takes a transcript and returns a new one (or the same, if nothing changed); an exchange that
 * an event does not touch stays the same object, so that views can compare by identity. Invariants:
 * - messages of an exchange are in rank order and there is one per rank;
 * - a `seq` that was seen changes nothing, but for `started` and `reset`, which say that the server reads its log
 *   from there again, so that what follows is rebuilt rather than added a second time, and for the one `final`;
 * - nothing changes an exchange after its `final`, but for messages that were missing in it.
 */

import { awaiting, withRecordedDecisions } from "./approvals.js";

/**
 * @typedef {object} Exchange
 * @property {string} id         the exchange's id, or `ask:<client_exchange_id>` until the server has named it
 * @property {string} key        stays the same when the id becomes known
 * @property {?string} status    `sending`, `running`, `awaiting_human`, how it ended, or null: the messages tell how
 * @property {?string} asked     the text of an ask whose stored message has not come yet
 * @property {?object} kept      why that ask waits here: `{content, until}`, `until` being when it is sent, or null
 * @property {number} seq        the last seq seen
 * @property {object[]} messages stored messages
 * @property {{block:number, channel:string, text:string}[]} blocks  messages being written
 * @property {Object<number, number>} blockOf  rank to the block whose deltas it replaced
 * @property {number} storedRank   the highest rank learned from the store
 * @property {number} streamedRank the highest rank learned from events
 *
 * What waits for a person, and how it was decided: see approvals.js.
 */

const ALWAYS_COUNT = new Set(["started", "reset", "final"]);
export const ONGOING = new Set(["sending", "running", "awaiting_human"]);

export const newTranscript = () => ({ exchanges: [], firstRank: 0, knownRank: 0 });

/** The exchange that keeps the session busy, or undefined. */
export const ongoing = (transcript) => transcript.exchanges.find(isOngoing);

export const isOngoing = (exchange) => ONGOING.has(exchange.status);

/** The user has asked; shown at once, before the server has heard of it. */
export function asked(transcript, clientExchangeId, text) {
  const id = `ask:${clientExchangeId}`;
  const exchange = { ...newExchange(id), clientExchangeId, status: "sending", asked: text };
  return { ...transcript, exchanges: [...transcript.exchanges, exchange] };
}

/** The ask was refused: it never happened. */
export function refused(transcript, clientExchangeId) {
  const exchanges = transcript.exchanges.filter(({ id }) => id !== `ask:${clientExchangeId}`);
  return { ...transcript, exchanges };
}

/** The server can't take the ask now; it waits here. */
export function kept(transcript, clientExchangeId, why) {
  return withExchange(transcript, `ask:${clientExchangeId}`, (exchange) => ({ ...exchange, kept: why }));
}

/** Someone pressed Stop; the exchange goes on until its `final` says otherwise. */
export function stopping(transcript) {
  const exchanges = transcript.exchanges.map((exchange) =>
    isOngoing(exchange) ? { ...exchange, stopping: true } : exchange,
  );
  return { ...transcript, exchanges };
}

/**
 * Merges messages read from the store. `knownRank` is the session's `next_rank`, `firstRank` where reading began;
 * `activeExchangeId` names the exchange that runs, if the session says so.
 */
export function stored(transcript, messages, { firstRank, knownRank = 0, activeExchangeId = null } = {}) {
  let exchanges = transcript.exchanges;
  for (const [id, own] of Map.groupBy(messages, (message) => message.exchange_id)) {
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

/** The rank after which stored messages are missing, or null when none are (-1: from the first). */
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

/** What the server's record of an exchange adds; but for decisions, nothing if an event of it came after `seq`. */
export function checked(transcript, record, seq) {
  return withExchange(transcript, record.id, (known) => {
    const exchange = withRecordedDecisions(known, record.decisions ?? [], lastRank(known.messages));
    if (exchange.seq !== seq || exchange.final) return exchange;
    const { status, error = exchange.error, pending } = record;
    if (status === "awaiting_human" && pending) return awaiting(exchange, pending, lastRank(exchange.messages));
    return { ...exchange, status, error, awaiting: null, blocks: ONGOING.has(status) ? exchange.blocks : [] };
  });
}

/** The transcript with another form of one exchange, if it is there. */
export function withExchange(transcript, id, change) {
  const exchanges = transcript.exchanges.map((exchange) => (exchange.id === id ? change(exchange) : exchange));
  return { ...transcript, exchanges };
}

/** True if the event belongs to an ask that waits to be acknowledged. */
export const answersAsk = (transcript, event) =>
  transcript.exchanges.some((exchange) => exchange.status === "sending" && begins(exchange, event));

/** Applies a server event of this session. */
export function applyEvent(transcript, event) {
  if (event.type === "idle") return settled(transcript, event);
  if (!event.exchange_id || !Number.isInteger(event.seq)) return transcript;
  const exchange = concerned(transcript, event);
  if (exchange.final || (event.seq <= exchange.seq && !ALWAYS_COUNT.has(event.type))) return transcript;
  const changed = HANDLERS[event.type]?.(exchange, event) ?? exchange;
  const next = { ...changed, id: event.exchange_id, seq: event.seq };
  const superseded = new Set([exchange.id, next.id, `ask:${event.client_exchange_id}`]);
  const others = transcript.exchanges.filter(({ id }) => !superseded.has(id));
  const place = transcript.exchanges.findIndex(({ id }) => id === exchange.id);
  others.splice(place < 0 ? others.length : place, 0, next);
  return { ...transcript, exchanges: changed.messages === exchange.messages ? others : inRankOrder(others) };
}

const HANDLERS = {
  started: (exchange, event) => ({
    ...exchange,
    ...NOTHING_SHOWN,
    status: "running",
    kept: null,
    agentId: event.agent_id,
    resumes: event.resumes ?? null,
    streamedRank: -1,
    storedRank: lastRank(exchange.messages),
  }),

  stream(exchange, { message, block }) {
    const written = block !== undefined && block !== null;
    return {
      ...goingOn(exchange),
      messages: withMessage(exchange.messages, message),
      blocks: written ? exchange.blocks.filter((open) => open.block !== block) : exchange.blocks,
      blockOf: written ? { ...exchange.blockOf, [message.rank]: block } : exchange.blockOf,
      streamedRank: Math.max(exchange.streamedRank, message.rank),
      progress: null,
    };
  },

  delta(exchange, { block, channel, text }) {
    const open = exchange.blocks.find((candidate) => candidate.block === block);
    const blocks = open
      ? exchange.blocks.map((other) => (other === open ? { block, channel, text: open.text + text } : other))
      : [...exchange.blocks, { block, channel, text }].sort((a, b) => a.block - b.block);
    return { ...goingOn(exchange), blocks };
  },

  activity(exchange, { kind, data, seq }) {
    // That the agent has blocked the server stays beside the answer: its developer has to see it.
    const stays = kind !== "progress" || data?.blocked_ms !== undefined;
    if (!stays) return { ...goingOn(exchange), progress: data };
    const told = data?.line ? exchange.activities.findIndex((earlier) => isAboutSameLine(earlier, kind, data)) : -1;
    if (told >= 0) {
      const activity = { ...exchange.activities[told], data };
      return { ...goingOn(exchange), activities: exchange.activities.with(told, activity) };
    }
    const activity = { seq, kind, data, afterRank: lastRank(exchange.messages) };
    return { ...goingOn(exchange), activities: [...exchange.activities, activity] };
  },

  awaiting_human: (exchange, { payload }) => awaiting(exchange, payload, lastRank(exchange.messages)),

  error: (exchange, { code, content, retryable, detail }) => ({
    ...exchange,
    error: { code, content, retryable, detail },
  }),

  reset: (exchange, { messages, partial }) => ({
    ...exchange,
    ...NOTHING_SHOWN,
    status: "running",
    messages: messages.reduce(withMessage, []),
    blocks: partial.map(({ block, channel, text }) => ({ block, channel, text })),
    streamedRank: lastRank(messages),
    storedRank: lastRank(messages),
  }),

  final: (exchange, { status, messages, usage, error }) => ({
    ...exchange,
    status,
    final: true,
    messages: messages.reduce(withMessage, []),
    blocks: [],
    progress: null,
    awaiting: null,
    error: error ?? exchange.error,
    usage,
    streamedRank: lastRank(messages),
    storedRank: lastRank(messages),
  }),
};

const NOTHING_SHOWN = { blocks: [], activities: [], progress: null, awaiting: null, error: null };

const newExchange = (id) => ({
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

/** Whether both say that this line of the agent has blocked the server. */
const isAboutSameLine = (earlier, kind, data) =>
  earlier.kind === kind && earlier.data?.line === data.line && [earlier.data, data].every((told) => "blocked_ms" in told);

/** A paused exchange that writes again has got its answer. */
const goingOn = (exchange) => ({ ...exchange, status: "running", awaiting: null });

/** Nothing runs: an exchange whose end was missed has ended, and the store tells how. */
function settled(transcript, { next_rank: nextRank = 0 }) {
  const exchanges = transcript.exchanges.map((exchange) =>
    exchange.status === "running" || exchange.status === "awaiting_human"
      ? { ...exchange, blocks: [], progress: null, awaiting: null, status: null }
      : exchange,
  );
  return { ...transcript, exchanges, knownRank: Math.max(transcript.knownRank, nextRank) };
}

/** The exchange an event is about: known by its id, or the ask that began it, or new. */
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
 */
function begins(exchange, event) {
  if (event.client_exchange_id) return event.client_exchange_id === exchange.clientExchangeId;
  if (event.type !== "final" && event.type !== "reset") return false;
  const question = event.messages.find(({ role }) => role === "user");
  return question?.parts.some((part) => part.type === "text" && part.text === exchange.asked) ?? false;
}

function update(exchanges, id, change) {
  const index = exchanges.findIndex((exchange) => exchange.id === id);
  if (index < 0) return [...exchanges, change(newExchange(id))];
  return exchanges.with(index, change(exchanges[index]));
}

/** A large exchange's `final` may have only its first and its last messages; those between come from the store. */
function withMissing(exchange, messages) {
  const ranks = new Set(exchange.messages.map(({ rank }) => rank));
  const missing = messages.filter(({ rank }) => !ranks.has(rank));
  return missing.length ? { ...exchange, messages: missing.reduce(withMessage, exchange.messages) } : exchange;
}

function withMessage(messages, message) {
  const rest = messages.filter(({ rank }) => rank !== message.rank);
  const after = rest.findIndex(({ rank }) => rank > message.rank);
  return rest.toSpliced(after < 0 ? rest.length : after, 0, message);
}

const lastRank = (messages) => messages.reduce((highest, { rank }) => Math.max(highest, rank), -1);

/** A session runs one exchange at a time, so the first rank orders them; one without messages is the newest. */
function inRankOrder(exchanges) {
  const firstRank = ({ messages }) => messages[0]?.rank ?? Infinity;
  return exchanges.toSorted((a, b) => {
    const [first, second] = [firstRank(a), firstRank(b)];
    return first === second ? 0 : first - second;
  });
}
