/**
 * The sidebar's list of sessions: its pages, and what is told of sessions while it is shown.
 *
 * Owns `state.sessions`: `{items, cursor, archive, loading, error, going}`. `items` are sessions with the `status` of
 * what is active in them, newest first; `archive` says which list they are of; `going` are the families that were
 * deleted here and may still be brought back. The server tells of every change (`follow_sessions`), so nothing polls.
 */

import { errorText } from "./error-words.js";

const PAGE = 30;
/** More pins than anybody keeps in sight. */
const PINS = 200;

export const noSessions = { items: [], cursor: null, archive: false, loading: true, error: null, going: new Set() };

/** A session and its branches are one entry of the list, and are pinned, archived and deleted together. */
export const familyOf = ({ id, root_id: rootId }) => rootId ?? id;

export class Sessions {
  #request = 0;
  /** What is gone: its last events may still be on their way. */
  #removed = new Set();
  /** What was told since the last page was asked for: the page may know less. */
  #told = [];
  /** `updated_at` of the last session of the last page: what is older comes with a later page. */
  #oldest = "";

  constructor(api, store, unread) {
    Object.assign(this, { api, store, unread });
  }

  find(id) {
    return this.#list.items.find((session) => session.id === id) ?? null;
  }

  /** All listed sessions of a family, the last used first. */
  family(familyId) {
    return this.#list.items.filter((session) => familyOf(session) === familyId);
  }

  /** How many branches a family has, listed or not. Raises ApiError. */
  async countBranches(familyId) {
    return (await this.api.branches(familyId)).branches.length - 1;
  }

  received(event) {
    if (event.type === "following_sessions") this.refresh();
    else if (event.type === "session_deleted") this.#gone(event.session_id);
    else if (event.type === "session") {
      this.learn(event.session, event.status);
      this.unread.told(event.session, event.status);
    }
  }

  /** Reads the first page anew; pages that were added below stay. */
  async refresh() {
    await this.#read(null, (found, cursor) => {
      const seen = new Set(found.map(({ id }) => id));
      const older = this.#list.items.filter(
        ({ id, pinned, updated_at: at }) => !seen.has(id) && !pinned && at < this.#oldest,
      );
      const isPaged = cursor && older.length > 0;
      return { items: isPaged ? [...found, ...older] : found, cursor: isPaged ? this.#list.cursor : cursor };
    });
  }

  async more() {
    if (this.#list.loading || !this.#list.cursor) return;
    await this.#read(this.#list.cursor, (found, cursor) => ({ items: merged(this.#list.items, found), cursor }));
  }

  /** Lists what is archived, or what is not. */
  showArchive(archive) {
    this.#set({ items: [], cursor: null, archive });
    this.refresh();
  }

  /** A session as it is now takes its place in the list, or leaves it. */
  learn(session, status) {
    if (this.#removed.has(session.id)) return;
    const told = { ...session, status: statusOf(session, status, this.find(session.id)) };
    if (this.#list.loading) this.#told.push(told);
    this.#set({ items: this.#with([told]) });
  }

  async rename(id, title) {
    this.learn(await this.api.change(id, { title }));
  }

  async pin(id, pinned) {
    this.learn(await this.api.change(id, { pinned }));
  }

  /** Puts the families away, or takes them out. Raises ApiError. */
  async archive(familyIds, archived) {
    const members = familyIds.map((familyId) => this.family(familyId)[0]?.id ?? familyId);
    await Promise.all(members.map(async (id) => this.learn(await this.api.change(id, { archived }))));
  }

  /** Takes the families out of sight; `bringBack` shows them again. */
  hide(familyIds) {
    this.#set({ going: new Set([...this.#list.going, ...familyIds]) });
  }

  bringBack(familyIds) {
    this.#set({ going: new Set([...this.#list.going].filter((familyId) => !familyIds.includes(familyId))) });
  }

  /** Deletes the families for good. Raises ApiError; what could not be deleted is shown again. */
  async remove(familyIds, options) {
    const outcomes = await Promise.allSettled(familyIds.map((familyId) => this.api.remove(familyId, options)));
    const isGone = ({ status, reason }) => status === "fulfilled" || reason.status === 404;
    const gone = familyIds.filter((_, index) => isGone(outcomes[index]));
    for (const { id } of gone.flatMap((familyId) => this.family(familyId))) this.#gone(id);
    this.bringBack(familyIds);
    const failed = outcomes.find((outcome) => !isGone(outcome));
    if (failed) throw failed.reason;
  }

  get #list() {
    return this.store.state.sessions;
  }

  #set(patch) {
    this.store.set({ sessions: { ...this.#list, ...patch } });
  }

  #gone(id) {
    this.#removed.add(id);
    this.unread.seen(id);
    this.#set({ items: this.#list.items.filter((session) => session.id !== id) });
  }

  /** The items with these sessions, as far as they belong to what is listed. */
  #with(told) {
    const { items, archive, cursor } = this.#list;
    const left = new Set(told.filter(({ archived }) => archived !== archive).map(({ id }) => id));
    const isDue = ({ id, pinned, updated_at: at }) => !cursor || pinned || at >= this.#oldest || this.find(id);
    return merged(
      items.filter(({ id }) => !left.has(id)),
      told.filter((session) => !left.has(session.id) && isDue(session)),
    );
  }

  async #read(cursor, merge) {
    const request = ++this.#request;
    const { archive } = this.#list;
    this.#told = [];
    this.#set({ loading: true });
    try {
      const wanted = [this.api.sessions({ archived: archive, cursor, limit: PAGE })];
      if (!archive && !cursor) wanted.push(this.api.sessions({ archived: false, pinned: true, limit: PINS }));
      const [page, pins] = await Promise.all(wanted);
      if (request !== this.#request) return;
      this.#oldest = page.sessions.at(-1)?.updated_at ?? "";
      const { items, cursor: next } = merge(merged(page.sessions, pins?.sessions ?? []), page.next_cursor ?? null);
      this.#set({ items, cursor: next, loading: false, error: null });
      this.#set({ items: this.#with(this.#told).filter(({ id }) => !this.#removed.has(id)) });
      this.unread.listed(this.#list.items);
    } catch (error) {
      if (request === this.#request) this.#set({ loading: false, error: errorText(error) });
    }
  }
}

/** The status of what is active in a session, of which only `told` may be known anew. */
function statusOf({ active_exchange_id: active }, told, known) {
  if (!active) return undefined;
  return told ?? (known?.active_exchange_id === active ? known.status : undefined);
}

function merged(items, news) {
  const byId = new Map(items.map((session) => [session.id, session]));
  for (const session of news) {
    const known = byId.get(session.id);
    if (!known || session.updated_at >= known.updated_at) byId.set(session.id, session);
  }
  return [...byId.values()].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
}
