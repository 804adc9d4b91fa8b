/**
 * The open conversation: opens it, asks, stops, and keeps it in step with the server.
 *
 * Owns `state.conversation` (what is open) and the decisions that the server has not acknowledged, which are sent again
 * on every new socket, as asks are; see Asking. Invariant: while a socket lasts, an exchange's cursor is set once, by the
 * ask or by one `follow`; the session as a whole is followed as soon as nothing of it runs, because following it sooner
 * would send the running exchange again from its beginning. A query has no session: nothing of it can be followed.
 */

import { answerFrom } from "./answerable.js";
import { ApiError } from "./api.js";
import { Asking } from "./asking.js";
import { TOO_LARGE } from "./client/connection.js";
import { Decisions } from "./decisions.js";
import { errorText } from "./error-words.js";
import { Forking } from "./forking.js";
import { Gaps } from "./gaps.js";
import { LEAP, MOST_AT_ONCE, PAGE, readHistory } from "./history.js";
import { Queries } from "./queries.js";
import { questionOf } from "./questions.js";
import { OpenState, nothingOpen } from "./open-state.js";
import { isOngoing } from "./client/transcript-exchange.js";
import { askedFiles, askedText } from "./timeline.js";
import {
  answersAsk,
  applyEvent,
  below,
  newTranscript,
  ongoing,
  stopping,
  stored,
  summarised,
} from "./client/transcript.js";

const FOLLOW_AGAIN_S = 2;

export class Conversation {
  #state;
  #address;
  #asking;
  #decisions;
  #gaps;
  #forking;
  #queries;
  #followsSession = false;
  #followedExchange = null;
  #followTimer = null;

  /** `owner` names the user, `address` is where it shows what is open; see location.js. */
  constructor({ api, store, sessions, branches, drafts, feedback, owner, address }) {
    Object.assign(this, { api, sessions, branches, drafts, feedback });
    this.#address = address;
    /** Set once by the composition root: the connection needs this object's callbacks first. */
    this.connection = null;
    this.#state = new OpenState(store);
    const send = (frame) => this.connection?.send(frame);
    this.#decisions = new Decisions(this.#state, send);
    this.#forking = new Forking({ state: this.#state, store, api });
    this.#queries = new Queries(this.#state, send);
    this.#gaps = new Gaps(this.#state, api, () => this.#goOn());
    this.#asking = new Asking({ state: this.#state, store, drafts, send, owner, onBack: () => this.#cameBack() });
    this.#asking.takeOver();
  }

  startNew({ replace = false } = {}) {
    this.#leave();
    if (this.drafts.of(null).mode) this.drafts.change(null, { mode: undefined });
    this.#set({ ...nothingOpen, opening: this.#state.opening });
    this.#address.show(null, { replace });
  }

  /** Opens what the address names. */
  openAddressed() {
    const id = this.#address.session();
    const rank = this.#address.takeRank();
    if (id && id === this.#open.sessionId) return rank !== null && this.showRank(rank);
    if (id) this.open(id, { rank });
    else if (this.#open.sessionId) this.startNew();
  }

  /** `rank` is that of the message to show, `shown` what its transcript is known to begin with, `how` what else is known. */
  async open(sessionId, { rank = null, shown = newTranscript(), ...how } = {}) {
    this.#leave();
    const { opening } = this.#state;
    const known = { session: this.sessions.find(sessionId), transcript: shown, loading: true };
    this.#set({ ...nothingOpen, ...how, ...known, sessionId, opening });
    this.#address.show(sessionId);
    try {
      const session = await this.api.session(sessionId);
      const readFrom = Math.max(0, session.next_rank - PAGE);
      const goesOn = readFrom <= shown.knownRank;
      const firstRank = goesOn ? Math.min(readFrom, shown.firstRank) : readFrom;
      const { messages, exchanges } = await readHistory(this.api, sessionId, readFrom, session.next_rank);
      if (opening !== this.#state.opening) return;
      const { active_exchange_id: activeExchangeId, next_rank: knownRank } = session;
      const before = goesOn ? shown : newTranscript();
      const transcript = stored(before, messages, { firstRank, knownRank, activeExchangeId });
      this.#set({ session, transcript: summarised(transcript, exchanges), loading: false });
      this.sessions.learn(session);
      this.branches.show(session);
      this.#asking.show();
      this.#goOn();
      this.#gaps.checkUnexplained();
      if (rank !== null) await this.showRank(rank);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening === this.#state.opening) this.#set({ loading: false, loadError: errorText(error) });
    }
  }

  /** Resolves to whether it could be read. */
  loadEarlier() {
    return this.#gaps.readFrom(this.#open.transcript.firstRank - PAGE);
  }

  /** Resolves to whether all of it is there now; of a very long conversation it is the latest part. */
  async loadAll() {
    const { firstRank, knownRank } = this.#open.transcript;
    const from = Math.max(0, knownRank - MOST_AT_ONCE);
    if (from < firstRank && !(await this.#gaps.readFrom(from, LEAP))) return false;
    return from === 0;
  }

  /** Brings the message with this rank into view, and marks it; what lies between is read, if it isn't there. */
  async showRank(rank) {
    const { opening } = this.#state;
    if (rank < this.#open.transcript.firstRank) await this.#gaps.readFrom(rank - PAGE / 2, LEAP);
    if (opening === this.#state.opening) this.#set({ marked: { rank } });
  }

  /** What is written in the open conversation, and how it is to be asked; see Drafts. */
  draft(patch) {
    this.drafts.change(this.#open.sessionId, patch);
  }

  /** What the user has typed so far. */
  get written() {
    return this.drafts.of(this.#open.sessionId).text;
  }

  /** Asks, or queues what can't be asked yet; false if neither can be. */
  send(text) {
    return this.#asking.ask(text);
  }

  /** Asks a text by itself, or queues it, and leaves what is written as it is; false if neither can be. */
  askText(text, files) {
    return this.#asking.ask(text, files);
  }

  /** Asks what is queued, however that has ended which it waits for. */
  sendQueued() {
    this.#asking.askQueued({ now: true });
  }

  /** What is queued is written on again; `drop`: it is given up. */
  unqueue(how) {
    this.#asking.unqueue(how);
  }

  /** Takes up the last thing that was asked, or queued, to write on it. */
  editLast() {
    if (this.drafts.of(this.#open.sessionId).queued) return this.unqueue();
    const last = this.#open.transcript.exchanges.findLast(askedText);
    if (!last || isOngoing(last)) return;
    this.edit(last);
  }

  /** Takes up the question of an exchange to ask another one in its place; null ends that. */
  edit(exchange) {
    this.#set({ editing: exchange?.key ?? null });
  }

  /**
   * Asks the question of an exchange again, or `text` in its place, in a branch that begins there. False if it can't.
   */
  async branch(exchange, text = null) {
    const question = questionOf(this.#open.transcript, exchange);
    if (!question || !(await this.#fork(question.rank))) return false;
    this.#asking.askAgain({ ...question, text: text ?? question.text });
    return true;
  }

  /** Goes on with a completed session, in a branch that has all of it. */
  async goOnInBranch() {
    if (await this.#fork(this.#open.session.next_rank)) this.#follow();
  }

  /** Opens another variant at `rank`, `of` the question or the answer; the user has turned `way`, previous or next. */
  turn(sessionId, rank, of, way) {
    this.open(sessionId, { shown: below(this.#open.transcript, rank), turned: { rank, of, way } });
  }

  askAgain(exchange) {
    this.#asking.ask(askedText(exchange), askedFiles(exchange));
  }

  /** Puts the question back to where it was written. */
  rewrite(exchange) {
    this.drafts.putBack(this.#open.sessionId, askedText(exchange), askedFiles(exchange));
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
    this.draft({ text: "" });
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

  /** Runs the exchange again from a step of its graph, in a branch, and opens that. Raises ApiError. */
  async rerun(exchange, graphStep) {
    const { opening } = this.#state;
    const { session_id: sessionId } = await this.api.rerun(exchange.id, graphStep);
    if (opening === this.#state.opening) await this.open(sessionId);
  }

  /** Ends the session for good, with what runs in it. Raises ApiError. */
  async end() {
    const { sessionId } = this.#open;
    await this.api.complete(sessionId);
    this.#learn(await this.api.session(sessionId));
  }

  stop() {
    if (this.#asking.takeBack()) return;
    this.#set({ transcript: stopping(this.#open.transcript) });
    this.#sendStop();
  }

  dismissRefusal() {
    this.#set({ refusal: null });
  }

  /** The user signs out: nothing is kept of what is asked. */
  close() {
    this.#asking.close();
  }

  /** A new socket: whatever was asked or followed on the last one is asked and followed again. */
  connected() {
    this.#followsNothing();
    this.#queries.end();
    this.#asking.sendAll();
    this.#decisions.sendFirst();
    if (this.#open.loadError) this.open(this.#open.sessionId);
    this.#follow();
    if (ongoing(this.#open.transcript)?.stopping) this.#sendStop();
  }

  /** The server won't take this page's frames: a text that was too large goes back to be shortened. */
  connectionRefused(code) {
    if (code !== TOO_LARGE) return;
    const error = { code: "message_too_large", content: "" };
    this.#asking.allRefused(error);
    this.#decisionRefused({ exchange_id: ongoing(this.#open.transcript)?.id, ...error });
  }

  received(event) {
    if (event.session) this.#learn(event.session);
    if (event.type === "session_deleted") return this.#deleted(event.session_id);
    if (event.type === "error" && !("seq" in event)) return this.#frameRefused(event);
    // What still comes of a session that was left begins no new one, whatever was asked there.
    const mayBegin = event.type === "started" || !this.#state.wasOpen(event.session_id);
    if (event.exchange_id) this.#asking.acknowledge(event, { mayBegin });
    if (!event.session_id) return this.#queries.received(event);
    if (this.#open.sessionId === null && mayBegin && answersAsk(this.#open.transcript, event)) this.#named(event);
    if (event.session_id === this.#open.sessionId) this.#open.loading || this.#apply(event);
    else if (event.type === "started") this.connection.send({ type: "unfollow", session_id: event.session_id });
  }

  #apply(event) {
    if (event.exchange_id) this.#followedExchange = event.exchange_id;
    const transcript = applyEvent(this.#open.transcript, event);
    if (transcript !== this.#open.transcript) this.#set({ transcript });
    const exchange = this.#state.exchange(event.exchange_id);
    if (exchange) {
      this.#decisions.settle(exchange);
      this.#gaps.checkDecisions(exchange);
    }
    if (event.type === "started" && ongoing(transcript)?.stopping) this.#sendStop();
    if (event.type === "idle" || event.type === "final") this.#follow();
    if (event.type === "idle") this.#gaps.checkUnexplained();
    // A reset tells neither what waits for a person nor that the exchange has ended.
    if (event.type === "reset") this.#gaps.check({ id: event.exchange_id, seq: event.seq });
    this.#gaps.readMissing();
    this.#asking.askQueued();
  }

  /** The new conversation has got its session. */
  #named({ session_id: sessionId, session = null }) {
    this.#set({ sessionId, session });
    if (session) this.branches.begin(session);
    this.drafts.name(sessionId);
    this.#address.show(sessionId, { replace: true });
  }

  /** A session is gone, by whatever window. What is written in the open one is not. */
  #deleted(sessionId) {
    const isOpen = sessionId === this.#open.sessionId;
    this.drafts.drop(sessionId, { saved: isOpen });
    if (isOpen) this.startNew({ replace: true });
  }

  #frameRefused(error) {
    if (this.#asking.refused(error)) return;
    const unread = !error.refused && this.#decisions.first;
    if (unread) return this.#decisionRefused({ ...error, exchange_id: unread.exchange_id });
    if (error.refused === "human_resume") return this.#decisionRefused(error);
    const here = error.session_id === this.#open.sessionId;
    if (error.refused === "follow" && error.retryable && here) return this.#followLater(error.retry_after_s);
    // Following an exchange that is gone: what the session tells instead is the truth.
    if (error.refused === "follow" && error.exchange_id && here) return this.#followSession();
    // The socket closes after a refused token, and the page says so.
    if (error.refused === "authenticate") return;
    if (here || !error.session_id) this.#set({ refusal: error });
  }

  /** The server also knows what has become of it meanwhile. */
  #decisionRefused(error) {
    const exchange = this.#state.exchange(error.exchange_id);
    if (this.#decisions.refused(error) && exchange) this.#gaps.check(exchange);
  }

  /** Opens a new branch that begins at `rank`; false, and the page says why, if there can be none. */
  async #fork(rank) {
    const session = await this.#forking.begin(rank);
    if (!session) return false;
    const { sessionId: from, transcript } = this.#open;
    this.#leave();
    this.drafts.move(from, session.id);
    const { opening } = this.#state;
    this.#set({ ...nothingOpen, opening, sessionId: session.id, session, transcript: below(transcript, rank) });
    this.#address.show(session.id);
    this.sessions.learn(session);
    this.branches.show(session);
    return true;
  }

  /** An ask has come back, with a refusal or without. Nobody needs a branch that was made for it. */
  #cameBack() {
    const { sessionId, refusal } = this.#open;
    const other = this.#forking.giveUp();
    if (!other) return this.#follow();
    this.drafts.move(sessionId, other);
    this.#address.show(other, { replace: true });
    this.open(other, { refusal });
  }

  #goOn() {
    this.#follow();
    this.#asking.askQueued();
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

  #followLater(afterS = FOLLOW_AGAIN_S) {
    this.#followsNothing();
    this.#followTimer = setTimeout(() => this.#follow(), afterS * 1_000);
  }

  #followsNothing() {
    clearTimeout(this.#followTimer);
    this.#followsSession = false;
    this.#followedExchange = null;
  }

  #leave() {
    this.#state.leave();
    this.#decisions.leave();
    this.#gaps.leave();
    if (this.#open.sessionId) this.connection?.send({ type: "unfollow", session_id: this.#open.sessionId });
    this.#queries.stop();
    this.#followsNothing();
  }

  #sendStop() {
    const { sessionId } = this.#open;
    if (sessionId) this.connection.send({ type: "stop", session_id: sessionId });
    else this.#queries.stop();
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
}
