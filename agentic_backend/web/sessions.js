/**
 * The sidebar's list of sessions: pages, search, renaming and deleting, and what events tell of sessions.
 *
 * Owns `state.sessions`: `{items, cursor, query, loading, error, waiting}`, newest first; `waiting` are the ids of the
 * exchanges that are known to wait for their user.
 */

const PAGE = 30;
const SEARCH_DELAY_MS = 250;
const WATCH_EVERY_MS = 10_000;
const LOOKED_AT_AT_MOST = 10;

export const noSessions = { items: [], cursor: null, query: "", loading: true, error: null, waiting: new Set() };

export class Sessions {
  #request = 0;
  /** What was deleted here: its last events may still be on their way. */
  #removed = new Set();
  /** What events told since the last page was asked for: the page may know less. */
  #told = [];
  #searchTimer = null;

  constructor(api, store) {
    this.api = api;
    this.store = store;
    setInterval(() => this.#watch(), WATCH_EVERY_MS);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.refresh());
  }

  find(id) {
    return this.#list.items.find((session) => session.id === id) ?? null;
  }

  /** Reads the first page anew; pages that were added below stay. */
  async refresh() {
    await this.#read(null, (found, cursor) => {
      const seen = new Set(found.map(({ id }) => id));
      const oldest = found.at(-1)?.updated_at ?? "";
      const older = this.#list.items.filter(({ id, updated_at: at }) => !seen.has(id) && at < oldest);
      const paged = cursor && older.length > 0;
      return { items: paged ? [...found, ...older] : found, cursor: paged ? this.#list.cursor : cursor };
    });
    await this.#lookForWaiting();
  }

  async more() {
    await this.#read(this.#list.cursor, (found, cursor) => ({ items: merged(this.#list.items, found), cursor }));
  }

  search(query) {
    this.#set({ query, loading: true });
    clearTimeout(this.#searchTimer);
    this.#searchTimer = setTimeout(() => {
      this.#set({ items: [], cursor: null });
      this.refresh();
    }, SEARCH_DELAY_MS);
  }

  /** An event told of this session: takes its place at the top of the list, unless a search says what is listed. */
  learn(session) {
    if (this.#removed.has(session.id)) return;
    const { items, query } = this.#list;
    if (query && !this.find(session.id)) return;
    if (this.#list.loading) this.#told.push(session);
    this.#set({ items: merged(items, [session]) });
  }

  /** An exchange is seen to wait for its user, or to go on. */
  noteWaiting(exchangeId, isWaiting) {
    if (this.#list.waiting.has(exchangeId) === isWaiting) return;
    const waiting = new Set(this.#list.waiting);
    if (isWaiting) waiting.add(exchangeId);
    else waiting.delete(exchangeId);
    this.#set({ waiting });
  }

  async rename(id, title) {
    this.learn(await this.api.rename(id, title));
  }

  async remove(id) {
    await this.api.remove(id);
    this.#removed.add(id);
    this.#set({ items: this.#list.items.filter((session) => session.id !== id) });
  }

  get #list() {
    return this.store.state.sessions;
  }

  #set(patch) {
    this.store.set({ sessions: { ...this.#list, ...patch } });
  }

  async #read(cursor, merge) {
    const request = ++this.#request;
    this.#told = [];
    this.#set({ loading: true });
    try {
      const page = await this.api.sessions({ query: this.#list.query.trim(), cursor, limit: PAGE });
      if (request === this.#request) {
        const { items, cursor: next } = merge(page.sessions, page.next_cursor ?? null);
        const told = this.#told.filter(({ id }) => !this.#removed.has(id));
        this.#set({ items: merged(items, told), cursor: next, loading: false, error: null });
      }
    } catch (error) {
      if (request === this.#request) this.#set({ loading: false, error: error.message });
    }
  }

  /** A session only tells that something of it is active: does that run, or does it wait? */
  async #lookForWaiting() {
    const looks = this.#activeElsewhere.slice(0, LOOKED_AT_AT_MOST).map(async ({ active_exchange_id: id }) => {
      const { status } = await this.api.exchange(id);
      this.noteWaiting(id, status === "awaiting_human");
    });
    // What has ended or can't be read meanwhile is not known to wait.
    await Promise.allSettled(looks);
  }

  get #activeElsewhere() {
    const open = this.store.state.conversation.sessionId;
    return this.#list.items.filter((session) => session.active_exchange_id && session.id !== open);
  }

  /** The page hears of the open session only: while another one runs, its end and title are asked for. */
  #watch() {
    const elsewhere = this.#activeElsewhere.length > 0;
    if (elsewhere && document.visibilityState === "visible" && !this.#list.loading) this.refresh();
  }
}

function merged(items, news) {
  const byId = new Map(items.map((session) => [session.id, session]));
  for (const session of news) {
    const known = byId.get(session.id);
    if (!known || session.updated_at >= known.updated_at) byId.set(session.id, session);
  }
  return [...byId.values()].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
}
