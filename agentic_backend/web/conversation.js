/**
 * The open conversation: opens it, asks, stops, and keeps it in step with the server.
 *
 * Owns `state.conversation` (what is open), `state.drafts` (unsent texts by session id, `NEW` for a new one), and what
 * the server has not acknowledged: asks and decisions, which are sent again on every new socket. Invariant: while a
 * socket lasts, an exchange's cursor is set once, by the ask or by one `follow`; the session as a whole is followed as
 * soon as nothing of it runs, because following it sooner would send the running exchange again from its beginning.
 */

import { answerFrom } from "./answerable.js";
import { ApiError } from "./api.js";
import { Asks } from "./client/asks.js";
import { TOO_LARGE } from "./client/connection.js";
import { Decisions } from "./decisions.js";
import { errorText } from "./error-words.js";
import { Gaps } from "./gaps.js";
import { PAGE, readMessages } from "./history.js";
import { sessionInAddress, showSessionInAddress } from "./location.js";
import { OpenState, nothingOpen } from "./open-state.js";
import { randomId } from "./client/random-id.js";
import { askedText } from "./timeline.js";
import {
  answersAsk,
  applyEvent,
  asked,
  kept,
  newTranscript,
  ongoing,
  refused,
  stopping,
  stored,
} from "./client/transcript.js";

export const NEW = "";

export class Conversation {
  #state;
  #asks;
  #decisions;
  #gaps;
  #followsSession = false;
  #followedExchange = null;

  constructor(api, store, sessions) {
    Object.assign(this, { api, store, sessions });
    /** Set once by the composition root: the connection needs this object's callbacks first. */
    this.connection = null;
    const send = (frame) => this.connection.send(frame);
    this.#state = new OpenState(store);
    this.#asks = new Asks(send);
    this.#decisions = new Decisions(this.#state, send);
    this.#gaps = new Gaps(this.#state, api, () => this.#follow());
  }

  startNew({ replace = false } = {}) {
    this.#leave();
    this.#set(nothingOpen);
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
    const { opening } = this.#state;
    this.#set({ ...nothingOpen, sessionId, session: this.sessions.find(sessionId), loading: true });
    showSessionInAddress(sessionId);
    try {
      const session = await this.api.session(sessionId);
      const firstRank = Math.max(0, session.next_rank - PAGE);
      const messages = await readMessages(this.api, sessionId, firstRank, session.next_rank);
      if (opening !== this.#state.opening) return;
      const { active_exchange_id: activeExchangeId, next_rank: knownRank } = session;
      const transcript = stored(newTranscript(), messages, { firstRank, knownRank, activeExchangeId });
      this.#set({ session, transcript, loading: false });
      this.sessions.learn(session);
      this.#follow();
      this.#gaps.checkUnexplained();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening === this.#state.opening) this.#set({ loading: false, loadError: errorText(error) });
    }
  }

  async loadEarlier() {
    const { sessionId, transcript } = this.#open;
    const { opening } = this.#state;
    const firstRank = Math.max(0, transcript.firstRank - PAGE);
    try {
      const messages = await readMessages(this.api, sessionId, firstRank, transcript.firstRank);
      if (opening !== this.#state.opening) return;
      this.#set({ transcript: stored(this.#open.transcript, messages, { firstRank }) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening === this.#state.opening) this.#set({ refusal: { code: error.code, content: error.content } });
    }
  }

  write(text) {
    this.#draft(this.#open.sessionId, text);
  }

  /** Asks; false where that can't be now. */
  send(text) {
    const { sessionId, transcript, loading, loadError } = this.#open;
    if (!text.trim() || loading || loadError || ongoing(transcript)) return false;
    const frame = { type: "ask", message: text, client_exchange_id: randomId() };
    if (sessionId) frame.session_id = sessionId;
    else if (this.store.state.agentId) frame.agent_id = this.store.state.agentId;
    this.#set({ transcript: asked(transcript, frame.client_exchange_id, text), refusal: null });
    if (this.store.state.drafts[sessionId ?? NEW] === text) this.#draft(sessionId, "");
    this.#asks.add(frame);
    return true;
  }

  askAgain(exchange) {
    this.send(askedText(exchange));
  }

  /** Puts the question back to where it was written. */
  rewrite(exchange) {
    const { sessionId } = this.#open;
    this.#draft(sessionId, joined(askedText(exchange), this.store.state.drafts[sessionId ?? NEW]));
  }

  /** Decides on what the exchange waits for; see Decisions. */
  decide(exchange, made) {
    this.#decisions.decide(exchange, made);
  }

  /** Takes `text` as the answer to the question that waits; false where it answers none. */
  answer(text) {
    const waiting = ongoing(this.#open.transcript);
    const made = waiting?.status === "awaiting_human" ? answerFrom(waiting, text) : null;
    if (!made) return false;
    this.decide(waiting, [made]);
    this.#draft(this.#open.sessionId, "");
    return true;
  }

  /** Goes on with an interrupted exchange, as a new one. Raises ApiError. */
  async resume(exchange) {
    await this.api.resume(exchange.id);
  }

  /** What the exchange's answer rests on. Raises ApiError. */
  trust(exchange) {
    return this.api.trust(exchange.id);
  }

  /** Ends the session for good, with what runs in it. Raises ApiError. */
  async end() {
    const { sessionId } = this.#open;
    await this.api.complete(sessionId);
    this.#learn(await this.api.session(sessionId));
  }

  stop() {
    const running = ongoing(this.#open.transcript);
    const waiting = running?.kept && this.#asks.find(running.clientExchangeId);
    if (waiting) return this.#askRefused(waiting, null);
    this.#set({ transcript: stopping(this.#open.transcript) });
    this.#sendStop();
  }

  /** All that was written and is not known to have reached the server, as drafts: asks come before what follows. */
  unsent() {
    const drafts = { ...this.store.state.drafts };
    for (const { session_id: sessionId = NEW, message } of this.#asks.frames.reverse()) {
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
    this.#asks.sendAll();
    this.#decisions.sendFirst();
    if (this.#open.loadError) this.open(this.#open.sessionId);
    this.#follow();
    if (ongoing(this.#open.transcript)?.stopping) this.#sendStop();
  }

  /** The server won't take this page's frames: a text that was too large goes back to be shortened. */
  connectionRefused(code) {
    if (code !== TOO_LARGE) return;
    const error = { content: "This message is too large." };
    for (const frame of this.#asks.frames) this.#askRefused(frame, error);
    this.#decisionRefused({ exchange_id: ongoing(this.#open.transcript)?.id, ...error });
  }

  received(event) {
    if (event.session) this.#learn(event.session);
    if (event.refused) return this.#frameRefused(event);
    if (!event.session_id) return;
    if (this.#open.sessionId === null && answersAsk(this.#open.transcript, event)) this.#named(event);
    if (event.type === "started") this.#asks.forget(event.client_exchange_id);
    if (event.session_id === this.#open.sessionId) this.#open.loading || this.#apply(event);
    else if (event.type === "started") this.connection.send({ type: "unfollow", session_id: event.session_id });
  }

  #apply(event) {
    if (event.exchange_id) this.#followedExchange = event.exchange_id;
    const transcript = applyEvent(this.#open.transcript, event);
    if (transcript !== this.#open.transcript) this.#set({ transcript });
    for (const { clientExchangeId, status } of transcript.exchanges) {
      if (status !== "sending") this.#asks.forget(clientExchangeId);
    }
    const exchange = this.#state.exchange(event.exchange_id);
    if (exchange) {
      this.#decisions.settle(exchange);
      this.#gaps.checkDecisions(exchange);
      this.sessions.noteWaiting(exchange.id, exchange.status === "awaiting_human");
    }
    if (event.type === "started" && ongoing(transcript)?.stopping) this.#sendStop();
    if (event.type === "idle" || event.type === "final") this.#follow();
    if (event.type === "idle") this.#gaps.checkUnexplained();
    // A reset tells neither what waits for a person nor that the exchange has ended.
    if (event.type === "reset") this.#gaps.check({ id: event.exchange_id, seq: event.seq });
    this.#gaps.readMissing();
  }

  /** The new conversation has got its session. */
  #named({ session_id: sessionId, session = null }) {
    this.#set({ sessionId, session });
    this.#draft(sessionId, this.store.state.drafts[NEW] ?? "");
    this.#draft(null, "");
    showSessionInAddress(sessionId, { replace: true });
  }

  #frameRefused(error) {
    const frame = this.#asks.find(error.client_exchange_id);
    if (frame) return this.#keep(frame, error) || this.#askRefused(frame, error);
    if (error.refused === "human_resume") return this.#decisionRefused(error);
    const here = error.session_id === this.#open.sessionId;
    // Following an exchange that is gone: what the session tells instead is the truth.
    if (error.refused === "follow" && error.exchange_id && here) return this.#followSession();
    // The socket closes after a refused token, and the page says so.
    if (error.refused === "authenticate") return;
    if (here || !error.session_id) this.#set({ refusal: error });
  }

  /** True if the ask is sent again by itself. */
  #keep({ client_exchange_id: id }, error) {
    const why = this.#asks.keep(id, error);
    if (why) this.#set({ transcript: kept(this.#open.transcript, id, why) });
    return Boolean(why);
  }

  /** The server also knows what has become of it meanwhile. */
  #decisionRefused(error) {
    const exchange = this.#state.exchange(error.exchange_id);
    if (this.#decisions.refused(error) && exchange) this.#gaps.check(exchange);
  }

  /** The text goes back to where it was written. */
  #askRefused({ client_exchange_id: id, session_id: sessionId = null, message }, error) {
    this.#asks.forget(id);
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
    this.#state.opening += 1;
    this.#decisions.leave();
    this.#gaps.leave();
    if (this.#open.sessionId) this.connection?.send({ type: "unfollow", session_id: this.#open.sessionId });
    this.#followsSession = false;
    this.#followedExchange = null;
  }

  #sendStop() {
    const { sessionId } = this.#open;
    if (sessionId) this.connection.send({ type: "stop", session_id: sessionId });
  }

  #learn(session) {
    this.sessions.learn(session);
    if (session.id === this.#open.sessionId) this.#set({ session });
  }

  get #open() {
    return this.#state.now;
  }

  #set(patch) {
    this.#state.set(patch);
  }

  #draft(sessionId, text) {
    this.store.set({ drafts: { ...this.store.state.drafts, [sessionId ?? NEW]: text } });
  }
}

const joined = (text, following) => (following?.trim() ? `${text}\n\n${following}` : text);
