/**
 * The versions of an agent: which there are, the difference of two, and the way back to one.
 *
 * Owns `state.versions`: `{id, items, cursor, error, chosen, texts}`. `chosen` are the numbers of the older and the
 * newer version that are compared, `texts` the YAML of each that was read, by number.
 */

import { errorText } from "../error-words.js";
import { t } from "../i18n.js";

export const noVersions = { id: null, items: null, cursor: null, error: null, chosen: [null, null], texts: {} };

export class Versions {
  constructor({ api, store, undo, onRolledBack }) {
    Object.assign(this, { api, store, undo, onRolledBack });
  }

  /** Opens those of an agent; the last two are compared. */
  async open(id) {
    this.store.set({ versions: { ...noVersions, id } });
    await this.#read(id, undefined, () => []);
    const [newer, older = newer] = this.#now.items ?? [];
    if (newer) await this.compare(older.version, newer.version);
  }

  more() {
    const { id, cursor, items } = this.#now;
    return this.#read(id, cursor, () => items);
  }

  async compare(older, newer) {
    const { id } = this.#now;
    this.#set({ chosen: [older, newer] });
    try {
      for (const number of new Set([older, newer])) {
        if (this.#now.texts[number] !== undefined) continue;
        const { yaml } = await this.api.version(id, number);
        if (this.#now.id === id) this.#set({ texts: { ...this.#now.texts, [number]: yaml } });
      }
    } catch (error) {
      this.#failed(id, error);
    }
  }

  /** A version becomes the newest again; what was the newest can be brought back as well. */
  async rollBack(version) {
    const { id, items } = this.#now;
    const before = items[0].version;
    try {
      await this.api.rollBack(id, version);
    } catch (error) {
      return this.undo.tell(error);
    }
    this.#rolledBack(id);
    const undo = async () => {
      await this.api.rollBack(id, before);
      this.#rolledBack(id);
    };
    return this.undo.offer({ text: t("Version {version} is back.", { version }), undo });
  }

  #rolledBack(id) {
    this.onRolledBack();
    if (this.#now.id === id) this.open(id);
  }

  async #read(id, cursor, before) {
    try {
      const { versions, next_cursor: next = null } = await this.api.versions(id, cursor);
      if (this.#now.id === id) this.#set({ items: [...before(), ...versions], cursor: next, error: null });
    } catch (error) {
      this.#failed(id, error);
    }
  }

  #failed(id, error) {
    if (this.#now.id === id) this.#set({ error: errorText(error) });
  }

  get #now() {
    return this.store.state.versions;
  }

  #set(patch) {
    this.store.set({ versions: { ...this.#now, ...patch } });
  }
}
