/** The panels of the page: those of the server's applications, which of them are open, and what all get of the page. */

import { styled } from "../own-files.js";
import { callsOf } from "./application-calls.js";
import { typingEnds } from "./focus-guard.js";
import { LinkPreview } from "./link-preview.js";

/**
 * Of the page's state: `{list, open, link, panels}`; `open` has the key of the panel at each place, or null. `link` is
 * what a link has opened last, `{key, data, from}`: the panel, what that is told, and the element that was followed.
 */
const nothingOpen = { beside: null, instead: null, sidebar: null };

export class Panels {
  #styles = null;
  #documents = new Map();
  #calls = new Map();
  #preview = new LinkPreview();
  /** By the document of a tool that has told models something: the last file's `id`, and whether it `isTakenOut`. */
  contexts = new Map();

  /** `hear` has its argument called with every event of the socket, and returns what ends that. */
  constructor({ api, store, conversation, hear }) {
    Object.assign(this, { api, store, conversation, hear });
    this.store.set({ panels: { list: [], open: nothingOpen, link: null, panels: this } });
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
    this.store.set({ panels: { list, open: nothingOpen, link: null, panels: this } });
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

  /** The panel in which a part or a source opens; undefined if the page has none. */
  forLink({ panel }) {
    return panel && this.store.state.panels.list.find(({ key, place }) => key === panel && place !== "part");
  }

  /** Opens what a part or a source leads to. The focus comes back to `from` once the panel is closed. */
  openLink(part, from) {
    const { key, place } = this.forLink(part);
    this.#preview.end();
    typingEnds();
    this.#show(place, key, { key, data: part.panel_data ?? {}, from });
  }

  /** Shows what a part or a source leads to beside `link`, while the person rests on that. */
  previewLink(part, link) {
    const panel = this.forLink(part);
    if (!panel.preview) return;
    this.#preview.rest(link, async () => {
      const { method, path } = (await this.calls(panel)).get(panel.preview);
      return (await this.api.call(method, besidePage(path), { body: part.panel_data ?? {} })).text;
    });
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

  #show(place, key, link = null) {
    const { panels } = this.store.state;
    this.store.set({ panels: { ...panels, open: { ...panels.open, [place]: key }, link } });
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
