/**
 * Attachments: uploads files for what is written, and fetches what was attached.
 *
 * Owns `state.uploads`: what is on its way, `{key, sessionId, name, size, progress, error, preview}`; what has arrived is
 * in the draft, as `{id, name, mime, size, at?}`. An <img> can't show a token to the server: so images are fetched, and shown
 * from the page's memory as long as anything shows them.
 */

import { isImage, misfit } from "./attached.js";
import { errorText } from "./error-words.js";
import { randomId } from "./client/random-id.js";
import { visible } from "./format.js";
import { t } from "./i18n.js";
import { saveFile } from "./saved-file.js";

/** An image that is hidden for a moment is not fetched again. */
const KEPT_MS = 10_000;

export class Attachments {
  /** By attachment id: `{uses, url}`, `url` being a promise. */
  #images = new Map();
  /** By the upload's key. */
  #aborts = new Map();

  constructor(api, store, drafts, undo) {
    Object.assign(this, { api, store, drafts, undo });
  }

  /** Uploads the files, to be attached to what is written in the open conversation. Returns what takes them away. */
  add(files) {
    const added = [];
    for (const file of files) {
      const isFull = this.#count() >= this.store.state.limits.attachments_per_ask;
      const key = randomId();
      // However long each takes, they stay in the order in which they were chosen.
      added.push({ key, arrived: this.#add(key, file, Date.now() + added.length / 1_000) });
      // It says of all that follow that they are too many.
      if (isFull) break;
    }
    return () => {
      for (const { key, arrived } of added) {
        this.cancel(key);
        arrived.then((id) => id && this.remove(id));
      }
    };
  }

  /** Ends an upload, or takes its error off the page. */
  cancel(key) {
    this.#aborts.get(key)?.abort();
    this.#drop(key);
  }

  /** How many `files` belong to what is written in the open conversation, and how it stands with those on their way. */
  get now() {
    const { conversation, uploads } = this.store.state;
    const { sessionId } = conversation;
    const own = uploads.filter((upload) => upload.sessionId === sessionId);
    return {
      files: this.#attached(sessionId).length + own.length,
      isUploading: own.some(({ error }) => !error),
      hasFailed: own.some(({ error }) => error),
    };
  }

  /** Takes what has arrived out of the draft; a file is deleted when nobody has brought it back in time. */
  remove(id) {
    const { sessionId } = this.store.state.conversation;
    const attached = this.#attached(sessionId);
    const file = attached.find((each) => each.id === id);
    if (!file) return;
    this.drafts.change(sessionId, { attachments: attached.filter((each) => each !== file) });
    // What is not deleted now, the server deletes later.
    const commit = () => this.api.removeAttachment(id).catch(() => {});
    // What a document tells is to be gone when it tells more; see AppContext.
    if (file.app) return void commit();
    this.undo.offer({
      text: t("{name} removed", { name: visible(file.name) }),
      undo: () => this.#attach(sessionId, file),
      commit,
    });
  }

  /** The URL of an image, which counts until it is released. Raises ApiError. */
  async image(id) {
    const known = this.#images.get(id);
    const image = known ?? { uses: 0, url: this.#read(id) };
    image.uses += 1;
    this.#images.set(id, image);
    try {
      return await image.url;
    } catch (error) {
      this.#images.delete(id);
      throw error;
    }
  }

  release(id) {
    const image = this.#images.get(id);
    if (!image) return;
    image.uses -= 1;
    setTimeout(async () => {
      if (image.uses > 0 || this.#images.get(id) !== image) return;
      this.#images.delete(id);
      URL.revokeObjectURL(await image.url);
    }, KEPT_MS);
  }

  /** Saves the file. Raises ApiError. */
  async download({ id, name }) {
    const content = await this.api.attachment(id);
    // Whatever it is, it is never opened as a page of this origin.
    saveFile({ name, blob: new Blob([content], { type: "application/octet-stream" }) });
  }

  /** The user signs out. */
  close() {
    for (const key of [...this.#aborts.keys()]) this.cancel(key);
  }

  /** Resolves to the id of the file, or to nothing if it has not arrived. */
  async #add(key, file, at) {
    const { sessionId } = this.store.state.conversation;
    const { limits } = this.store.state;
    const error = misfit(file, this.#count(), limits);
    const preview = !error && isImage({ mime: file.type }) ? URL.createObjectURL(file) : null;
    const upload = { key, sessionId, name: file.name, size: file.size, progress: 0, error, preview };
    this.store.set({ uploads: [...this.store.state.uploads, upload] });
    if (error) return;
    const abort = new AbortController();
    this.#aborts.set(key, abort);
    try {
      const onProgress = (progress) => this.#change(key, { progress });
      const { id, name, mime, size } = await this.api.upload(file, { onProgress, signal: abort.signal });
      if (abort.signal.aborted) return void this.api.removeAttachment(id).catch(() => {});
      // What is written may have got a session meanwhile, or have gone on in a branch.
      this.#attach(this.#upload(key).sessionId, { id, name, mime, size, at });
      this.#drop(key);
      return id;
    } catch (failure) {
      if (abort.signal.aborted) return;
      this.#change(key, { error: errorText(failure).replace(/^file: (.)/, (_, first) => first.toUpperCase()) });
    } finally {
      this.#aborts.delete(key);
    }
  }

  async #read(id) {
    const content = await this.api.attachment(id);
    return URL.createObjectURL(content);
  }

  /** How many files belong to what is written in the open conversation, or are on their way to it. */
  #count() {
    const { sessionId } = this.store.state.conversation;
    const under = this.store.state.uploads.filter((upload) => upload.sessionId === sessionId && !upload.error);
    return this.#attached(sessionId).length + under.length;
  }

  #attach(sessionId, file) {
    const attachments = [...this.#attached(sessionId), file];
    this.drafts.change(sessionId, { attachments: attachments.sort((one, other) => (one.at ?? 0) - (other.at ?? 0)) });
  }

  #attached(sessionId) {
    return this.drafts.of(sessionId).attachments ?? [];
  }

  #upload(key) {
    return this.store.state.uploads.find((upload) => upload.key === key);
  }

  #change(key, patch) {
    const uploads = this.store.state.uploads.map((upload) => (upload.key === key ? { ...upload, ...patch } : upload));
    this.store.set({ uploads });
  }

  #drop(key) {
    const { preview } = this.#upload(key) ?? {};
    if (preview) URL.revokeObjectURL(preview);
    this.store.set({ uploads: this.store.state.uploads.filter((upload) => upload.key !== key) });
  }
}
