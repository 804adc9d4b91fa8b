/**
 * What is written and not sent, by session: kept in the browser over reloads, crashes and sign-in.
 *
 * Owns `state.drafts`: a Draft by session id, `NEW` for a conversation that has none yet. A Draft is `{text, pasted?,
 * queued?, agentId?, chatProfile?, attachments?, mode?}`: `pasted` is what is too long for a field and goes after the
 * text; `queued` is `{id, text, attachments?, at}`, what is asked next, as the exchange `id`, queued `at` that time in
 * ms, which a page that is opened a day later takes for what is written; `agentId` and `chatProfile` are those chosen
 * for what is asked. New conversations are kept by tab; when the tab is gone, the next one that has nothing written
 * takes it over. Queries (`mode`) are never kept.
 */

import { KeptRows, SENT_WITHIN_MS } from "./kept-rows.js";
import { goneTabs, tabId } from "./tab.js";

export const NEW = "";
export const EMPTY = Object.freeze({ text: "" });

const BOUNDS = { count: 100, characters: 1_500_000 };
const KEPT_AFTER_MS = 250;
const TAB = "tab.";

/** A browser needs seconds to show thousands of lines in a field, and again at each key. */
const LONG = { characters: 20_000, lines: 500 };

export const isLong = (text) => text.length >= LONG.characters || text.split("\n", LONG.lines + 1).length > LONG.lines;

/** All that the draft says. */
export const wholeText = ({ text, pasted }) => joined(text, pasted ?? "");

export class Drafts {
  #rows;
  #tab = null;
  #changed = new Set();
  #timer = null;

  /** `owner` names the user, `kind` is that of the rows. */
  constructor(store, owner, kind = "drafts") {
    this.store = store;
    addEventListener("pagehide", () => this.flush());
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.flush());
    this.#rows = new KeptRows(kind, owner, BOUNDS, (id, draft) => this.#changedElsewhere(id, draft));
    const own = this.#rows.all().filter(([id]) => !id.startsWith(TAB));
    this.store.set({ drafts: Object.fromEntries(own.map(([id, draft]) => [id, draft])) });
    for (const [id] of own) this.#unqueueStale(id);
    this.#takeOver();
  }

  /** The draft of a session; null: of a new conversation. */
  of(sessionId) {
    return this.store.state.drafts[sessionId ?? NEW] ?? EMPTY;
  }

  change(sessionId, patch) {
    const key = sessionId ?? NEW;
    this.store.set({ drafts: { ...this.store.state.drafts, [key]: { ...this.of(key), ...patch } } });
    this.#changed.add(key);
    this.#timer ??= setTimeout(() => this.flush(), KEPT_AFTER_MS);
  }

  /** The new conversation has got its session. */
  name(sessionId) {
    const { text, pasted, queued, attachments } = this.of(NEW);
    this.change(sessionId, { text, pasted, queued, attachments });
    this.store.set({ drafts: { ...this.store.state.drafts, [NEW]: EMPTY } });
    this.#changed.add(NEW);
    this.#moveUploads(null, sessionId);
    this.flush();
  }

  /** What is written goes on in a branch. What is queued stays, as what it waits for does. */
  move(from, to) {
    const { queued, ...written } = this.of(from);
    this.change(to, written);
    this.change(from, { ...EMPTY, queued, pasted: undefined, attachments: undefined });
    this.#moveUploads(from, to);
  }

  /** What is on its way to a draft is attached where that has gone. */
  #moveUploads(from, to) {
    const moved = (upload) => (upload.sessionId === from ? { ...upload, sessionId: to } : upload);
    this.store.set({ uploads: this.store.state.uploads.map(moved) });
  }

  /** The session is gone, and with it what was written there; `saved`: that goes on in a new conversation. */
  drop(sessionId, { saved = false } = {}) {
    const draft = this.of(sessionId);
    if (draft === EMPTY) return;
    if (saved) {
      const { queued, attachments = [] } = draft;
      const files = [...(queued?.attachments ?? []), ...attachments];
      this.putBack(null, joined(queued?.text ?? "", wholeText(draft)), files);
    }
    const { [sessionId]: _, ...drafts } = this.store.state.drafts;
    this.store.set({ drafts });
    this.#changed.add(sessionId);
    // Another window in which it is open has to hear of its end first, to save what is written.
    this.#timer ??= setTimeout(() => this.flush(), KEPT_AFTER_MS);
  }

  /** What is queued is written on again. */
  unqueue(sessionId) {
    const { queued } = this.of(sessionId);
    if (!queued) return;
    this.change(sessionId, { queued: undefined });
    this.putBack(sessionId, queued.text, queued.attachments);
  }

  /** Puts a text before what is written, and files before those that are attached. */
  putBack(sessionId, text, files = []) {
    const { text: following, pasted, attachments = [] } = this.of(sessionId);
    const whole = joined(text, following);
    const others = attachments.filter(({ id }) => files.every((file) => file.id !== id));
    this.change(sessionId, {
      ...(isLong(whole) ? { pasted: joined(text, pasted ?? "") } : { text: whole }),
      ...(files.length && { attachments: [...files, ...others] }),
    });
  }

  /** Keeps what has changed now. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    for (const key of this.#changed) {
      const id = key === NEW ? this.#tab && TAB + this.#tab : key;
      // Until the tab is known by its id, a new conversation waits.
      if (!id) continue;
      this.#changed.delete(key);
      const draft = this.of(key);
      if (isEmpty(draft) || draft.mode === "query") this.#rows.delete(id);
      else this.#rows.set(id, draft);
    }
  }

  /** The user signs out. */
  close() {
    clearTimeout(this.#timer);
    this.#rows.close();
  }

  async #takeOver() {
    this.#tab = await tabId();
    const isGone = await goneTabs();
    const rows = this.#rows.all().filter(([id]) => id.startsWith(TAB));
    const own = rows.find(([id]) => id === TAB + this.#tab);
    const found = own ?? rows.findLast(([id]) => isGone(id.slice(TAB.length)));
    const isTaken = found && isEmpty(this.of(NEW));
    if (isTaken) this.change(NEW, found[1]);
    this.#unqueueStale(NEW);
    this.flush();
    if (isTaken && !own) this.#rows.delete(found[0]);
  }

  #unqueueStale(sessionId) {
    const { queued } = this.of(sessionId);
    if (queued && Date.now() - (queued.at ?? 0) > SENT_WITHIN_MS) this.unqueue(sessionId);
  }

  #changedElsewhere(id, draft) {
    if (id.startsWith(TAB) || this.#changed.has(id)) return;
    this.store.set({ drafts: { ...this.store.state.drafts, [id]: draft ?? EMPTY } });
  }
}

const isEmpty = ({ text, ...rest }) =>
  !text.trim() && Object.values(rest).every((value) => !value?.length && !value?.id);

const joined = (text, following) => [text, following].filter((each) => each.trim()).join("\n\n");
