/**
 * The open conversation: opens it, asks, stops, and keeps it in step with the server.
 *
 * Owns `state.conversation` (what is open), `state.drafts` (unsent texts by session id, `NEW` for a new one) and the
 * asks that the server has not acknowledged, which are sent again on every new socket. Invariant: while a socket
 * lasts, an exchange's cursor is set once, by the ask or by one `follow`; the session as a whole is followed as soon
 * as nothing of it runs, because following it sooner would send the running exchange again from its beginning.
 */

import { ApiError } from "./api.js";
import { TOO_LARGE } from "./connection.js";
import { PAGE, readMessages } from "./history.js";
import { sessionInAddress, showSessionInAddress } from "./location.js";
import { randomId } from "./random-id.js";
import { askedText, outcome } from "./timeline.js";
import {
  answersAsk,
  applyEvent,
  asked,
  checked,
  missingAfter,
  newTranscript,
  ongoing,
  refused,
  stopping,
  stored,
} from "./transcript.js";

export const NEW = "";
const READ_AGAIN_MS = 3_000;

export const nothingOpen = {
  sessionId: null,
  session: null,
  transcript: newTranscript(),
  loading: false,
  loadError: null,
  refusal: null,
};

export class Conversation {
  #unacknowledged = new Map();
  #opening = 0;
  #followsSession = false;
  #followedExchange = null;
  /** The rank after which missing messages are or were read: once, unless that failed. */
  #readingAfter = null;

  constructor(api, store, sessions) {
    Object.assign(this, { api, store, sessions });
    /** Set once by the composition root: the connection needs this object's callbacks first. */
    this.connection = null;
  }

  startNew({ replace = false } = {}) {
    this.#leave();
    this.store.set({ conversation: nothingOpen });
    showSessionInAddress(null, { replace });
  }

  /** Opens what the address names. */
  openAddressed() {
    const id = sessionInAddress();
    if (id === this.#open.sessionId) return;
    if (id) this.open(id);
    else this.startNew();
  }

  async open(sessionId) {
    this.#leave();
    const opening = this.#opening;
    const conversation = { ...nothingOpen, sessionId, session: this.sessions.find(sessionId), loading: true };
    this.store.set({ conversation });
    showSessionInAddress(sessionId);
    try {
      const session = await this.api.session(sessionId);
      const firstRank = Math.max(0, session.next_rank - PAGE);
      const messages = await readMessages(this.api, sessionId, firstRank, session.next_rank);
      if (opening !== this.#opening) return;
      const { active_exchange_id: activeExchangeId, next_rank: knownRank } = session;
      const transcript = stored(newTranscript(), messages, { firstRank, knownRank, activeExchangeId });
      this.#set({ session, transcript, loading: false });
      this.sessions.learn(session);
      this.#follow();
      this.#checkUnexplained();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening === this.#opening) this.#set({ loading: false, loadError: error.message });
    }
  }

  async loadEarlier() {
    const { sessionId, transcript } = this.#open;
    const opening = this.#opening;
    const firstRank = Math.max(0, transcript.firstRank - PAGE);
    try {
      const messages = await readMessages(this.api, sessionId, firstRank, transcript.firstRank);
      if (opening === this.#opening) this.#set({ transcript: stored(this.#open.transcript, messages, { firstRank }) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening === this.#opening) this.#set({ refusal: { content: error.message } });
    }
  }

  write(text) {
    this.#draft(this.#open.sessionId, text);
  }

  send(text) {
    const { sessionId, transcript, loading, loadError } = this.#open;
    if (!text.trim() || loading || loadError || ongoing(transcript)) return;
    const frame = { type: "ask", message: text, client_exchange_id: randomId() };
    if (sessionId) frame.session_id = sessionId;
    else if (this.store.state.agentId) frame.agent_id = this.store.state.agentId;
    this.#unacknowledged.set(frame.client_exchange_id, frame);
    this.#set({ transcript: asked(transcript, frame.client_exchange_id, text), refusal: null });
    if (this.store.state.drafts[sessionId ?? NEW] === text) this.#draft(sessionId, "");
    this.connection.send(frame);
  }

  askAgain(exchange) {
    this.send(askedText(exchange));
  }

  stop() {
    this.#set({ transcript: stopping(this.#open.transcript) });
    this.#sendStop();
  }

  /** All that was written and is not known to have reached the server, as drafts: asks come before what follows. */
  unsent() {
    const drafts = { ...this.store.state.drafts };
    for (const { session_id: sessionId = NEW, message } of [...this.#unacknowledged.values()].reverse()) {
      drafts[sessionId] = joined(message, drafts[sessionId]);
    }
    return drafts;
  }

  dismissRefusal() {
    this.#set({ refusal: null });
  }

  /** A new socket: whatever was asked or followed on the last one is asked and followed again. */
  connected() {
    this.#followsSession = false;
    this.#followedExchange = null;
    for (const frame of this.#unacknowledged.values()) this.connection.send(frame);
    if (this.#open.loadError) this.open(this.#open.sessionId);
    this.#follow();
    if (ongoing(this.#open.transcript)?.stopping) this.#sendStop();
  }

  /** The server won't take this page's frames: a text that was too large goes back to be shortened. */
  connectionRefused(code) {
    if (code !== TOO_LARGE) return;
    const error = { content: "This message is too large." };
    for (const frame of this.#unacknowledged.values()) this.#askRefused(frame, error);
  }

  received(event) {
    if (event.session) this.#learn(event.session);
    if (event.refused) return this.#frameRefused(event);
    if (!event.session_id) return;
    if (this.#open.sessionId === null && answersAsk(this.#open.transcript, event)) this.#named(event);
    if (event.type === "started") this.#unacknowledged.delete(event.client_exchange_id);
    if (event.session_id === this.#open.sessionId) this.#open.loading || this.#apply(event);
    else if (event.type === "started") this.connection.send({ type: "unfollow", session_id: event.session_id });
  }

  #apply(event) {
    if (event.exchange_id) this.#followedExchange = event.exchange_id;
    const transcript = applyEvent(this.#open.transcript, event);
    if (transcript !== this.#open.transcript) this.#set({ transcript });
    for (const { clientExchangeId, status } of transcript.exchanges) {
      if (status !== "sending") this.#unacknowledged.delete(clientExchangeId);
    }
    if (event.type === "started" && ongoing(transcript)?.stopping) this.#sendStop();
    if (event.type === "idle" || event.type === "final") this.#follow();
    if (event.type === "idle") this.#checkUnexplained();
    // A reset tells neither what waits for a person nor that the exchange has ended.
    if (event.type === "reset") this.#check({ id: event.exchange_id, seq: event.seq });
    this.#readMissing();
  }

  /** The new conversation has got its session. */
  #named({ session_id: sessionId, session = null }) {
    this.#set({ sessionId, session });
    this.#draft(sessionId, this.store.state.drafts[NEW] ?? "");
    this.#draft(null, "");
    showSessionInAddress(sessionId, { replace: true });
  }

  #frameRefused(error) {
    const frame = this.#unacknowledged.get(error.client_exchange_id);
    if (frame) return this.#askRefused(frame, error);
    const here = error.session_id === this.#open.sessionId;
    // Following an exchange that is gone: what the session tells instead is the truth.
    if (error.refused === "follow" && error.exchange_id && here) return this.#followSession();
    // The socket closes after a refused token, and the page says so.
    if (error.refused === "authenticate") return;
    if (here || !error.session_id) this.#set({ refusal: error });
  }

  /** The text goes back to where it was written. */
  #askRefused({ client_exchange_id: id, session_id: sessionId = null, message }, error) {
    this.#unacknowledged.delete(id);
    this.#draft(sessionId, joined(message, this.store.state.drafts[sessionId ?? NEW]));
    if (sessionId !== this.#open.sessionId) return;
    this.#set({ transcript: refused(this.#open.transcript, id), refusal: error });
    this.#follow();
  }

  #follow() {
    const { sessionId, transcript, loading, loadError } = this.#open;
    if (!sessionId || loading || loadError || this.#followsSession) return;
    const running = ongoing(transcript);
    if (running?.status === "sending") return;
    if (!running?.seq) return this.#followSession();
    if (running.id === this.#followedExchange) return;
    const follow = { type: "follow", session_id: sessionId, exchange_id: running.id, after_seq: running.seq };
    if (this.connection.send(follow)) this.#followedExchange = running.id;
  }

  #followSession() {
    this.#followsSession = this.connection.send({ type: "follow", session_id: this.#open.sessionId });
  }

  #leave() {
    this.#opening += 1;
    if (this.#open.sessionId) this.connection?.send({ type: "unfollow", session_id: this.#open.sessionId });
    this.#followsSession = false;
    this.#followedExchange = null;
    this.#readingAfter = null;
  }

  #sendStop() {
    const { sessionId } = this.#open;
    if (sessionId) this.connection.send({ type: "stop", session_id: sessionId });
  }

  /** There is a gap between the ranks that are known: an event was missed, the store has its message. */
  async #readMissing() {
    const { sessionId, transcript } = this.#open;
    const afterRank = missingAfter(transcript);
    if (afterRank === null || afterRank === this.#readingAfter) return;
    const opening = this.#opening;
    this.#readingAfter = afterRank;
    try {
      const messages = await readMessages(this.api, sessionId, afterRank + 1, transcript.knownRank);
      if (opening === this.#opening) this.#set({ transcript: stored(this.#open.transcript, messages) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setTimeout(() => this.#readAgain(), READ_AGAIN_MS);
    }
  }

  #readAgain() {
    this.#readingAfter = null;
    this.#readMissing();
  }

  /** Exchanges that ended unseen and without an answer, and the last one if it failed: may it be tried again? */
  #checkUnexplained() {
    const { exchanges } = this.#open.transcript;
    for (const exchange of exchanges) {
      const ending = exchange.status === null && outcome(exchange);
      if (ending === "unanswered" || (ending === "error" && exchange === exchanges.at(-1))) this.#check(exchange);
    }
  }

  /** Asks how an exchange stands where its messages or events don't tell. */
  async #check({ id, seq }) {
    const opening = this.#opening;
    try {
      const record = await this.api.exchange(id);
      if (opening === this.#opening) this.#set({ transcript: checked(this.#open.transcript, record, seq) });
      this.#follow();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  #learn(session) {
    this.sessions.learn(session);
    if (session.id === this.#open.sessionId) this.#set({ session });
  }

  get #open() {
    return this.store.state.conversation;
  }

  #set(patch) {
    this.store.set({ conversation: { ...this.#open, ...patch } });
  }

  #draft(sessionId, text) {
    this.store.set({ drafts: { ...this.store.state.drafts, [sessionId ?? NEW]: text } });
  }
}

const joined = (text, following) => (following?.trim() ? `${text}\n\n${following}` : text);
