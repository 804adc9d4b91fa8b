/**
 * The entry that is edited: what was read, what is typed, and how both come together again.
 *
 * Owns `state.editing`: `{id, entry, loading, loadError, text, revision, typed, version, problems, saving, error,
 * conflict, isRestored, isMissing}`. `text` is what the editor was last given, each time under another `revision`;
 * `typed` what it has now, which began as `version`. `entry` is null for a new agent. `conflict` is the entry that
 * somebody else has saved meanwhile. `isMissing`: there is no such agent. What is typed and not saved is kept in the
 * browser, by agent.
 */

import { ApiError } from "../api.js";
import { errorText } from "../error-words.js";
import { KeptRows } from "../kept-rows.js";

const BOUNDS = { count: 50, characters: 1_000_000 };
const KEPT_AFTER_MS = 250;
/** No agent has this id. */
const NEW = "+new";

export const nothingEdited = {
  id: null,
  entry: null,
  loading: false,
  loadError: null,
  text: "",
  revision: 0,
  typed: "",
  version: null,
  problems: [],
  saving: false,
  error: null,
  conflict: null,
  isRestored: false,
  isMissing: false,
};

export const isDirty = ({ entry, typed }) => typed !== (entry?.yaml ?? "");
export const isReadOnly = ({ entry }) => entry?.source === "yaml";

export class Editing {
  #rows;
  #opening = 0;
  #timer = null;

  /** `owner` names the user; `onSaved` gets what the server says of an entry that was saved. */
  constructor({ api, store, owner, onSaved }) {
    Object.assign(this, { api, store, onSaved });
    this.#rows = new KeptRows("entries", owner, BOUNDS);
    addEventListener("pagehide", () => this.#keep());
  }

  /** Opens an agent, or with null a new one. */
  async open(id) {
    this.#keep();
    const opening = (this.#opening += 1);
    this.#set({ ...nothingEdited, id, loading: id !== null });
    const kept = this.#kept(id);
    if (id === null) return this.#show(kept?.yaml ?? "", { isRestored: Boolean(kept) });
    try {
      const entry = await this.api.read(id);
      if (opening !== this.#opening) return;
      const version = entry.version ?? null;
      const isRestored = Boolean(kept) && kept.yaml !== entry.yaml && entry.source === "database";
      if (!isRestored) return this.#show(entry.yaml, { entry, version, problems: entry.problems ?? [] });
      const conflict = kept.version === version ? null : entry;
      this.#show(kept.yaml, { entry, version: kept.version, conflict, isRestored });
      this.check(kept.yaml);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening !== this.#opening) return;
      this.#set({ loading: false, loadError: errorText(error), isMissing: error.status === 404 });
    }
  }

  /** Somebody else may have saved it: where nothing is typed, that is shown. */
  async refresh() {
    const opening = this.#opening;
    try {
      const entry = await this.api.read(this.#now.id);
      const { version, saving } = this.#now;
      if (opening !== this.#opening || saving || (entry.version ?? null) === version) return;
      if (isDirty(this.#now)) this.#set({ conflict: entry });
      else this.#show(entry.yaml, { entry, version: entry.version ?? null, problems: entry.problems ?? [] });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // Saving it says what is wrong, too.
    }
  }

  typed(typed) {
    if (typed === this.#now.typed) return;
    this.#set({ typed, error: null });
    this.#timer ??= setTimeout(() => this.#keep(), KEPT_AFTER_MS);
  }

  /** Puts a text in the place of what is typed. */
  fill(text) {
    this.#show(text, {});
    this.#keep();
    this.check(text);
  }

  /** Has the text checked, if it is still the one that is typed when the answer comes. */
  async check(text) {
    try {
      const { problems } = await this.api.check(text);
      if (text === this.#now.typed) this.#set({ problems });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // Saving it says what is wrong, too.
    }
  }

  /** Gives up what is typed for what is saved. */
  discard() {
    const entry = this.#now.conflict ?? this.#now.entry;
    this.#forget();
    this.#show(entry?.yaml ?? "", { entry, version: entry?.version ?? null, conflict: null, isRestored: false });
  }

  /** Keeps what is typed, and lets it follow what somebody else has saved. */
  overwrite() {
    const { conflict } = this.#now;
    this.#set({ entry: conflict, version: conflict.version, conflict: null });
    return this.save();
  }

  async save() {
    const { id, typed, version, saving } = this.#now;
    if (saving) return;
    const opening = this.#opening;
    this.#set({ saving: true, error: null });
    try {
      const saved = id === null ? await this.api.create(typed) : await this.api.replace(id, typed, version);
      if (opening === this.#opening) this.#saved({ ...saved, yaml: typed });
      this.onSaved(saved);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening !== this.#opening) return;
      if (error.status === 409 && id !== null) await this.#conflicts(id, opening);
      else this.#set({ error: errorText(error), ...(error.problems.length && { problems: error.problems }) });
    } finally {
      if (opening === this.#opening) this.#set({ saving: false });
    }
  }

  /** What was typed while it was being saved follows it. */
  #saved(entry) {
    this.#set({ id: entry.id, entry, version: entry.version, conflict: null, isRestored: false, problems: [] });
    this.#forget(this.#now.id);
    this.#forget(null);
    this.#keep();
  }

  async #conflicts(id, opening) {
    try {
      const conflict = await this.api.read(id);
      if (opening === this.#opening) this.#set({ conflict });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening === this.#opening) this.#set({ error: errorText(error) });
    }
  }

  #show(text, patch) {
    this.#set({ text, typed: text, revision: this.#now.revision + 1, loading: false, error: null, ...patch });
  }

  #keep() {
    clearTimeout(this.#timer);
    this.#timer = null;
    const { id, typed, version, loading, loadError } = this.#now;
    if (loading || loadError || isReadOnly(this.#now)) return;
    if (isDirty(this.#now)) this.#rows.set(rowOf(id), { yaml: typed, version });
    else this.#forget(id);
  }

  #forget(id = this.#now.id) {
    this.#rows.delete(rowOf(id));
  }

  #kept(id) {
    const [, value] = this.#rows.all().find(([row]) => row === rowOf(id)) ?? [];
    return typeof value?.yaml === "string" ? value : null;
  }

  get #now() {
    return this.store.state.editing;
  }

  #set(patch) {
    this.store.set({ editing: { ...this.#now, ...patch } });
  }
}

const rowOf = (id) => encodeURIComponent(id ?? NEW);
