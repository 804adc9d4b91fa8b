/**
 * What is asked in the open conversation: from what is written, over the queue, to the server's acknowledgement.
 *
 * A queue has room for one: what is sent while something runs waits there until that has ended well, as part of the
 * draft. An ask that the server refuses comes back as what is written.
 */

import { wellFormed } from "./client/exact-json.js";
import { randomId } from "./client/random-id.js";
import { asked, begins, kept, missingAfter, ongoing, refused } from "./client/transcript.js";
import { wholeText } from "./drafts.js";
import { plural } from "./i18n.js";
import { KeptAsks } from "./kept-asks.js";
import { historyOf } from "./queries.js";
import { outcome } from "./timeline.js";

/** Files may go without words; models can't: some take no message without them. */
function wordsFor(attachments) {
  const { length: count } = attachments.filter(({ app }) => !app);
  return count && plural(count, "Please look at this file.", "Please look at these files.");
}

export class Asking {
  #asks;
  /** The id of what was sent before its conversation was there to ask it in. */
  #dueId = null;

  /** `onBack` is called when an ask of the open conversation has come back. */
  constructor({ state, store, drafts, send, owner, onBack }) {
    Object.assign(this, { state, store, drafts, onBack });
    this.#asks = new KeptAsks(send, owner);
  }

  /**
   * Asks with the draft's attachments or those `given`, or queues what can't be asked yet: while something runs, and
   * before the conversation is there. False if neither can be.
   */
  ask(text, given = null) {
    const { sessionId, transcript, loading, loadError } = this.state.now;
    const draft = this.drafts.of(sessionId);
    const isQuery = this.#isQuery(draft);
    // A query takes none: they stay where they were attached.
    const attachments = given ?? (isQuery ? [] : draft.attachments) ?? [];
    const written = given ? text : wholeText({ ...draft, text });
    const whole = written.trim() ? written : wordsFor(attachments);
    if (!whole || loadError) return false;
    const message = { id: randomId(), text: whole, attachments };
    const isQueued = loading || Boolean(ongoing(transcript));
    if (isQueued && (draft.queued || isQuery)) return false;
    this.drafts.change(sessionId, {
      ...(draft.text === text && { text: "" }),
      ...(!given && { ...(!isQuery && { attachments: [] }), pasted: undefined }),
    });
    if (loading) this.#dueId = message.id;
    if (isQueued) this.drafts.change(sessionId, { queued: { ...message, at: Date.now() } });
    else this.#send(message);
    return true;
  }

  /** Asks what is queued, if what it waits for has ended well; `now`: however that has ended. */
  askQueued({ now = false } = {}) {
    const { sessionId, transcript, loading, loadError } = this.state.now;
    const { queued } = this.drafts.of(sessionId);
    if (!queued || loading || loadError) return;
    const isDue = now || queued.id === this.#dueId;
    this.#dueId = null;
    if (ongoing(transcript)) return;
    const last = transcript.exchanges.at(-1);
    const isComplete = missingAfter(transcript) === null && last && outcome(last) === "ok";
    if (!isDue && !isComplete) return;
    this.drafts.change(sessionId, { queued: undefined });
    this.#send(queued);
  }

  /** Asks what was asked before, of the same agent, whatever is written meanwhile. */
  askAgain({ text, attachments, agentId }) {
    this.#send({ id: randomId(), text, attachments, agentId });
  }

  /** What is queued is written on again; `drop`: it is given up. */
  unqueue({ drop = false } = {}) {
    const { sessionId } = this.state.now;
    if (drop) this.drafts.change(sessionId, { queued: undefined });
    else this.drafts.unqueue(sessionId);
  }

  /** The ask that waits here for the server is given up, and comes back. True if there was one. */
  takeBack() {
    const waiting = ongoing(this.state.now.transcript);
    const frame = waiting?.kept && this.#asks.find(waiting.clientExchangeId);
    if (frame) this.#comeBack(frame, null);
    return Boolean(frame);
  }

  /** A new socket. */
  sendAll() {
    this.#asks.sendAll();
  }

  /** What was left unacknowledged by the page before this one, or by a tab that is gone. */
  async takeOver() {
    const { sent, stale } = await this.#asks.takeOver();
    for (const { frame, files } of stale) this.drafts.putBack(frame.session_id ?? null, frame.message, files);
    if (sent.length) this.show();
  }

  /** Shows the asks of the open conversation that the server has not acknowledged. */
  show() {
    const { sessionId, transcript, loading } = this.state.now;
    if (loading) return;
    const known = new Set(transcript.exchanges.map(({ clientExchangeId }) => clientExchangeId));
    const own = this.#asks.frames.filter((frame) => (frame.session_id ?? null) === sessionId);
    // Of several new conversations the last is shown.
    for (const { client_exchange_id: id, message } of sessionId ? own : own.slice(-1)) {
      if (!known.has(id)) this.state.set({ transcript: asked(this.state.now.transcript, id, message) });
    }
  }

  /** An event of an exchange came: does it acknowledge an ask? `mayBegin`: it may be of a session that an ask began. */
  acknowledge(event, { mayBegin }) {
    const open = this.state.now.sessionId;
    for (const { client_exchange_id: id, session_id: sessionId = null, message } of this.#asks.frames) {
      const isOfSession =
        sessionId === event.session_id || (!sessionId && mayBegin && (open === null || event.session_id !== open));
      if (isOfSession && begins({ clientExchangeId: id, asked: message }, event)) this.#asks.forget(id);
    }
  }

  /** The server has refused a frame: true if that was an ask, which is sent again later or has come back. */
  refused(error) {
    const frame = this.#asks.refused(error);
    if (!frame) return false;
    const why = this.#asks.keep(frame.client_exchange_id, error);
    if (why) this.state.set({ transcript: kept(this.state.now.transcript, frame.client_exchange_id, why) });
    else this.#comeBack(frame, error);
    return true;
  }

  /** The server takes none of them. */
  allRefused(error) {
    for (const frame of this.#asks.frames) this.#comeBack(frame, error);
  }

  /** The user signs out. */
  close() {
    this.#asks.close();
  }

  #send({ id, text: written, attachments = [], agentId: named = null }) {
    const text = wellFormed(written);
    const { sessionId, session, transcript } = this.state.now;
    const draft = this.drafts.of(sessionId);
    const agentId = named ?? draft.agentId ?? (sessionId ? null : this.store.state.agentId);
    const isQuery = this.#isQuery(draft);
    const frame = { type: "ask", message: text, client_exchange_id: id };
    if (sessionId) frame.session_id = sessionId;
    if (isQuery) Object.assign(frame, { mode: "query", history: historyOf(transcript, this.store.state.limits) });
    if (agentId && agentId !== session?.agent_id) frame.agent_id = agentId;
    if (draft.chatProfile) frame.chat_profile = draft.chatProfile;
    if (attachments.length) frame.attachments = attachments.map((attachment) => attachment.id);
    this.state.set({ transcript: asked(transcript, id, text), isQuery, refusal: null });
    this.#asks.add(frame, attachments);
  }

  #isQuery({ mode }) {
    return !this.state.now.sessionId && mode === "query";
  }

  /** The text goes back to where it was written; into a new conversation where that is gone. */
  #comeBack({ client_exchange_id: id, session_id: sessionId = null, message }, error) {
    const files = this.#asks.forget(id);
    this.drafts.putBack(error?.code === "session_not_found" ? null : sessionId, message, files);
    if (sessionId !== this.state.now.sessionId) return;
    this.state.set({ transcript: refused(this.state.now.transcript, id), refusal: error });
    this.onBack();
  }
}
