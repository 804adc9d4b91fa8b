/**
 * The list of the catalog's agents, and what is done to them there.
 *
 * Owns `state.catalog`: `{agents, wins, editable, error, filter}`; `agents` is null until they are read. `editable`:
 * whether the database may have any.
 */

import { errorText } from "../error-words.js";
import { t } from "../i18n.js";
import { saveFile } from "../saved-file.js";

const FILE_NAME = "agents_catalog.yaml";

export const noCatalog = { agents: null, wins: null, editable: false, error: null, filter: "" };

export class Catalog {
  #reading = 0;

  constructor(api, store, undo) {
    Object.assign(this, { api, store, undo });
  }

  async read() {
    const reading = (this.#reading += 1);
    try {
      const { agents, wins, editable } = await this.api.list();
      if (reading === this.#reading) this.#set({ agents, wins, editable, error: null });
    } catch (error) {
      if (reading === this.#reading) this.#set({ error: errorText(error) });
    }
  }

  filter(filter) {
    this.#set({ filter });
  }

  switch({ id, name }, isOn) {
    const text = isOn ? t("{agent} is enabled.", { agent: name }) : t("{agent} is disabled.", { agent: name });
    return this.#done(
      () => this.api.switch(id, isOn),
      () => ({ text, undo: () => this.#then(this.api.switch(id, !isOn)) }),
    );
  }

  /** Its versions stay, so it can be brought back. */
  remove({ id, name, version }) {
    const undo = () => this.#then(this.api.rollBack(id, version));
    return this.#done(
      () => this.api.remove(id),
      () => ({ text: t("{agent} is deleted.", { agent: name }), undo }),
    );
  }

  async export() {
    try {
      saveFile({ name: FILE_NAME, blob: await this.api.exported() });
    } catch (error) {
      this.undo.tell(error);
    }
  }

  /** Takes the agents of a catalog in. Raises ApiError. */
  async import(yaml) {
    await this.api.imported(yaml);
    await this.read();
  }

  async #done(step, offer) {
    try {
      await step();
    } catch (error) {
      this.undo.tell(error);
      return this.read();
    }
    this.undo.offer(offer());
    return this.read();
  }

  async #then(step) {
    await step;
    await this.read();
  }

  #set(patch) {
    this.store.set({ catalog: { ...this.store.state.catalog, ...patch } });
  }
}
