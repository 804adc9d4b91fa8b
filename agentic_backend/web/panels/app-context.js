/**
 * What the document of an MCP server tells models (`ui/update-model-context`): a file that goes along with the person's
 * next message in this conversation, in the place of what the document has told before. They see it among the files of
 * what they write, and may take it out: then the document tells nothing more.
 *
 * A document may tell more often than anybody can send: of what comes meanwhile only the last is taken.
 */

import { ApiError } from "../api.js";
import { Refused } from "./frame-host.js";
import { isObject } from "./plain-json.js";

/** Between two of what is kept: each time as long again, until the document has been silent for a while. */
const GAP_MS = 250;
const LONGEST_GAP_MS = 4_000;
const CALM_MS = 10_000;
/** As the server has it. */
const LONGEST = 16_000;
const MOST = 64;

export class AppContext {
  #panels;
  #panel;
  /** What was told last, as JSON, and what of it was kept last; "" for nothing, null after a failure. */
  #told = "";
  #kept = "";
  #keptAt = -Infinity;
  #gap = GAP_MS;
  #keeping = null;
  #timer = null;
  #failure = null;
  #isClosed = false;

  constructor(panels, panel) {
    this.#panels = panels;
    this.#panel = panel;
    document.addEventListener("visibilitychange", this.#seen);
  }

  /** Whether the page shows files of what is written, of which this is one. */
  get isPossible() {
    return Boolean(this.#panels.store.state.limits?.attachment_bytes);
  }

  /** Raises Refused. */
  tell({ content = [], structuredContent = null }) {
    if (!this.#isOpen() || !this.isPossible) throw new Refused("Nothing can be told now.");
    if (this.#past.isTakenOut) throw new Refused("The person has taken it out.");
    if (this.#failure) throw this.#failure;
    const isText = (block) => block?.type === "text" && typeof block.text === "string";
    const isOfTexts = Array.isArray(content) && content.length <= MOST && content.every(isText);
    if (!isOfTexts || (structuredContent !== null && !isObject(structuredContent)))
      throw new Refused("Only texts and structured content can be told.");
    const texts = content.map(({ text }) => text).filter((text) => text.trim());
    const isNothing = !texts.length && !structuredContent;
    const body = { texts, ...(structuredContent && { structured_content: structuredContent }) };
    const told = isNothing ? "" : JSON.stringify(body);
    if (told.length > LONGEST) throw new Refused(`No more than ${LONGEST} characters can be told.`);
    if (told && !this.#own() && this.#isFull()) throw new Refused("There is no room for it.");
    this.#told = told;
    this.#keepSoon();
    return {};
  }

  /** The file that would go along with a message that the document sends now, if there is one. */
  async file() {
    if (this.#told !== this.#kept) await this.#keep();
    await this.#keeping;
    return this.#isOpen() ? this.#own() : undefined;
  }

  /** Takes the file out of what is written. */
  take(file) {
    this.#change((files) => files.filter(({ id }) => id !== file.id));
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#seen);
  }

  #seen = () => this.#keepSoon();

  #keepSoon() {
    if (this.#told === this.#kept || this.#timer !== null || this.#isClosed || document.hidden) return;
    this.#timer = setTimeout(
      async () => {
        await this.#keep();
        this.#timer = null;
        this.#keepSoon();
      },
      Math.max(0, this.#keptAt + this.#gap - performance.now()),
    );
  }

  /** Whatever goes wrong, the document is told when it tells something again. */
  async #keep() {
    await this.#keeping;
    this.#keeping = this.#made(this.#told);
    await this.#keeping;
  }

  async #made(told) {
    const now = performance.now();
    this.#gap = now - this.#keptAt > CALM_MS ? GAP_MS : Math.min(2 * this.#gap, LONGEST_GAP_MS);
    this.#keptAt = now;
    this.#kept = told;
    try {
      const before = this.#own();
      // Of a page that was loaded again.
      if (before) this.#past.id = before.id;
      else if (await this.#isTakenOut()) return;
      const file = told ? await this.#panels.api.call("POST", this.#path, { body: JSON.parse(told) }) : null;
      if (!this.#isOpen()) return void (file && this.#remove(file.id));
      const replaced = this.#own();
      // Meanwhile it may have been sent, or taken out.
      if (before && !replaced && (await this.#isTakenOut())) return void (file && this.#remove(file.id));
      const { id, name, mime, size } = file ?? {};
      const added = file ? [{ id, name, mime, size, at: Date.now(), app: this.#key }] : [];
      this.#change((files) => [...files.filter((each) => each !== replaced), ...added]);
      this.#past.id = file?.id ?? null;
      if (replaced) this.#remove(replaced.id);
    } catch (error) {
      this.#told = this.#kept = null;
      this.#failure = new Refused(error instanceof ApiError ? error.content : "internal error");
      // What was in the way for the moment may not be later.
      setTimeout(() => (this.#failure = null), LONGEST_GAP_MS);
    }
  }

  /** Whether what was added last is gone, and not sent: then nothing more is told. */
  async #isTakenOut() {
    const past = this.#past;
    if (!past.id) return false;
    past.isTakenOut = await this.#panels.api.attachment(past.id).then(
      () => false,
      (error) => error instanceof ApiError && error.status === 404,
    );
    return past.isTakenOut;
  }

  /** What the page knows of this document, also when its frame was out of sight and is made anew. */
  get #past() {
    const { contexts } = this.#panels;
    const key = `${this.#panel.sessionId} ${this.#key}`;
    if (!contexts.has(key)) contexts.set(key, { id: null, isTakenOut: false });
    return contexts.get(key);
  }

  get #key() {
    return `${this.#panel.rank}`;
  }

  get #path() {
    return `sessions/${encodeURIComponent(this.#panel.sessionId)}/messages/${this.#panel.rank}/app-context`;
  }

  #isOpen() {
    const { sessionId } = this.#panels.store.state.conversation;
    const isShown = Boolean(sessionId) && sessionId === this.#panel.sessionId;
    return !this.#isClosed && isShown && Number.isInteger(this.#panel.rank);
  }

  #files() {
    const { drafts, conversation } = this.#panels.store.state;
    return drafts[conversation.sessionId]?.attachments ?? [];
  }

  #own() {
    return this.#files().find(({ app }) => app === this.#key);
  }

  #isFull() {
    const { limits, uploads } = this.#panels.store.state;
    return this.#files().length + uploads.length >= limits.attachments_per_ask;
  }

  #change(change) {
    this.#panels.conversation.draft({ attachments: change(this.#files()) });
  }

  #remove(id) {
    // What is not deleted now, the server deletes later.
    this.#panels.api.removeAttachment(id).catch(() => {});
  }
}
