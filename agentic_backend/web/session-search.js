/**
 * The search in the user's sessions.
 *
 * Owns `state.search`: `{query, found, cursor, loading, error}`; `found` has what `GET /search` gives, and is null
 * before the first answer.
 */

import { errorText } from "./error-words.js";

const DELAY_MS = 200;
const PAGE = 20;

export const noSearch = { query: "", found: null, cursor: null, loading: false, error: null };

export class SessionSearch {
  #request = 0;
  #timer = null;

  constructor(api, store) {
    this.api = api;
    this.store = store;
  }

  search(query) {
    clearTimeout(this.#timer);
    this.#request += 1;
    if (!query.trim()) return this.#set({ ...noSearch, query });
    this.#set({ query, loading: true });
    this.#timer = setTimeout(() => this.#read(null), DELAY_MS);
  }

  clear() {
    this.search("");
  }

  more() {
    if (this.#search.cursor && !this.#search.loading) this.#read(this.#search.cursor);
  }

  get #search() {
    return this.store.state.search;
  }

  #set(patch) {
    this.store.set({ search: { ...this.#search, ...patch } });
  }

  async #read(cursor) {
    const request = ++this.#request;
    const before = cursor ? this.#search.found : [];
    this.#set({ loading: true });
    try {
      const page = await this.api.search({ query: this.#search.query.trim(), cursor, limit: PAGE });
      if (request !== this.#request) return;
      const found = [...before, ...page.found];
      this.#set({ found, cursor: page.next_cursor ?? null, loading: false, error: null });
    } catch (error) {
      if (request === this.#request) this.#set({ found: before, cursor, loading: false, error: errorText(error) });
    }
  }
}
