/**
 * The asks that the server has not acknowledged, kept in the browser until it has: over a reload or a crash they are
 * sent again under the same id, and so count once.
 *
 * Queries are not kept: they end with their socket.
 */

import { Asks } from "./client/asks.js";
import { KeptRows, SENT_WITHIN_MS } from "./kept-rows.js";
import { goneTabs, tabId } from "./tab.js";

const BOUNDS = { count: 50, characters: 1_500_000 };

export class KeptAsks {
  #asks;
  /** What is attached to each, by id. */
  #files = new Map();
  #rows;
  #tab = tabId();

  /** `owner` names the user; `send` gets a frame to the server, if it can be reached. */
  constructor(send, owner) {
    this.#asks = new Asks(send);
    this.#rows = new KeptRows("asks", owner, BOUNDS);
  }

  get frames() {
    return this.#asks.frames;
  }

  find(id) {
    return this.#asks.find(id);
  }

  /** The ask that the server has refused; null if it isn't here. */
  refused(error) {
    return this.#asks.refused(error);
  }

  /** Why an ask that was refused waits here to be sent again; null if it doesn't. */
  keep(id, error) {
    return this.#asks.keep(id, error);
  }

  sendAll() {
    this.#asks.sendAll();
  }

  /** `files` are what the frame's attachments show of themselves. */
  async add(frame, files = []) {
    const { client_exchange_id: id, mode } = frame;
    this.#files.set(id, files);
    this.#asks.add(frame);
    if (mode === "query") return;
    this.#rows.set(id, { frame, files });
    const tab = await this.#tab;
    if (this.find(id)) this.#rows.set(id, { frame, files, tab });
  }

  /** What was attached to it. */
  forget(id) {
    const files = this.#files.get(id) ?? [];
    this.#files.delete(id);
    this.#asks.forget(id);
    if (id) this.#rows.delete(id);
    return files;
  }

  /**
   * Takes over what this tab had not got through before it was loaded, and what tabs left that are gone: `{sent, stale}`,
   * both `{frame, files}`, of which the stale are too old to be sent by themselves and are no longer kept.
   */
  async takeOver() {
    const [tab, isGone] = [await this.#tab, await goneTabs()];
    const sent = [];
    const stale = [];
    for (const [id, { frame, files, tab: owner = tab }, age] of this.#rows.all()) {
      if (this.find(id) || (owner !== tab && !isGone(owner))) continue;
      (age > SENT_WITHIN_MS ? stale : sent).push({ frame, files });
    }
    for (const { frame } of stale) this.#rows.delete(frame.client_exchange_id);
    for (const { frame, files } of sent) this.add(frame, files);
    return { sent, stale };
  }

  /** The user signs out. */
  close() {
    this.#rows.close();
  }
}
