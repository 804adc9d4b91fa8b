/** The panels of the page: those of the server's applications, which of them are open, and what all get of the page. */

import { styled } from "../own-files.js";
import { callsOf } from "./application-calls.js";

/** Of the page's state: `{list, open, panels}`; `open` has the key of the panel at each place, or null. */
const nothingOpen = { beside: null, instead: null, sidebar: null };

export class Panels {
  #styles = null;
  #documents = new Map();
  #calls = new Map();
  /** By the document of a tool that has told models something: the last file's `id`, and whether it `isTakenOut`. */
  contexts = new Map();

  /** `hear` has its argument called with every event of the socket, and returns what ends that. */
  constructor({ api, store, conversation, hear }) {
    Object.assign(this, { api, store, conversation, hear });
    this.store.set({ panels: { list: [], open: nothingOpen, panels: this } });
  }

  /** Resolves when the styles of panels are there, or can't be had: panels are usable without. */
  styled() {
    return (this.#styles ??= styled("styles/panels.css").catch(() => {}));
  }

  /** `applications` are those of `GET /info`. */
  learn(applications) {
    const list = applications.flatMap(({ id, title, openapi, panels }) =>
      panels.map((panel) => ({
        ...panel,
        key: `${id}/${panel.name}`,
        application: title,
        openapi,
        /** Whether it is as high as it says, among other things. */
        isInline: panel.place === "part" || panel.place === "sidebar",
      })),
    );
    this.store.set({ panels: { list, open: nothingOpen, panels: this } });
  }

  /** Opens a panel at its place, or closes it. */
  toggle({ key, place }) {
    const isOpen = this.#open[place] === key;
    this.#show(place, isOpen ? null : key);
  }

  close(place) {
    this.#show(place, null);
  }

  /** The panel that shows parts of this kind. */
  forPart(kind) {
    return this.store.state.panels.list.find(({ part }) => part === kind);
  }

  /** The panel's document; that of an application is read once. Raises ApiError. */
  document({ path, isOfTool }) {
    const read = async () => (await this.api.file(besidePage(path))).text();
    return isOfTool ? read() : this.#once(this.#documents, path, read);
  }

  /** The calls of the panel's application, read once. Raises ApiError. */
  calls({ openapi }) {
    return this.#once(this.#calls, openapi, async () => callsOf(await this.api.call("GET", besidePage(openapi))));
  }

  get #open() {
    return this.store.state.panels.open;
  }

  #show(place, key) {
    const { panels } = this.store.state;
    this.store.set({ panels: { ...panels, open: { ...panels.open, [place]: key } } });
  }

  #once(known, path, read) {
    if (!known.has(path)) {
      const reading = read();
      known.set(path, reading);
      reading.catch(() => known.delete(path));
    }
    return known.get(path);
  }
}

const besidePage = (path) => new URL(path.slice(1), document.baseURI);
