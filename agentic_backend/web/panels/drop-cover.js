/**
 * Takes what a person drops on a panel in its place: in a frame without an origin Chromium reads no folder. Folders have
 * no links, so there is an end to them.
 */

import { AsItIs } from "./frame-host.js";

const MOST = { files: 10_000, folders: 10_000, bytes: 10_000_000_000, depth: 50 };

/** What was dropped is more than MOST says of `what`. */
class Excess extends Error {
  constructor(what) {
    super(what);
    this.what = what;
  }
}

export class DropCover {
  #frame;
  #uncover = () => {};

  constructor(frame) {
    this.#frame = frame;
  }

  /**
   * Lies over the frame until what is dragged there is dropped, or is gone. Resolves to the `files` that were dropped,
   * all of them, each a `file` with its `path`, and how many `hidden` ones were left out; to what they were `refused`
   * for, and the `most` of that; to neither if nothing was dropped.
   */
  take() {
    this.end();
    return new Promise((resolve) => {
      const cover = document.createElement("div");
      cover.className = "drop-cover";
      cover.dataset.testid = "drop-cover";
      const box = this.#frame.getBoundingClientRect();
      for (const side of ["top", "left", "width", "height"]) cover.style[side] = `${box[side]}px`;
      this.#uncover = () => {
        cover.remove();
        resolve({});
      };
      const over = (event) => {
        event.preventDefault();
        event.dataTransfer.dropEffect = "copy";
      };
      const dropped = (event) => {
        event.preventDefault();
        resolve(taken(event.dataTransfer.items));
        this.end();
      };
      const gone = () => this.end();
      // While something is dragged, pointers tell nothing.
      const listeners = { dragenter: over, dragover: over, drop: dropped, dragleave: gone, pointermove: gone, pointerdown: gone };
      for (const [name, listener] of Object.entries(listeners))
        cover.addEventListener(name, (event) => {
          // What is dropped here is nothing for the conversation.
          event.stopPropagation();
          listener(event);
        });
      document.body.append(cover);
    });
  }

  end() {
    this.#uncover();
  }
}

async function taken(items) {
  const found = { files: [], hidden: 0, folders: 0, bytes: 0 };
  // All at once: when the drop is over, there are none any more.
  const entries = [...items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
  try {
    await walk(entries, found, 0);
  } catch (error) {
    return error instanceof Excess ? { refused: error.what, most: MOST[error.what] } : { refused: "unreadable" };
  }
  return new AsItIs({ files: found.files, hidden: found.hidden });
}

async function walk(entries, found, depth) {
  const seen = entries.filter(({ name }) => !name.startsWith("."));
  found.hidden += entries.length - seen.length;
  const folders = seen.filter(({ isDirectory }) => isDirectory);
  const files = seen.filter(({ isDirectory }) => !isDirectory);
  found.folders += folders.length;
  if (found.folders > MOST.folders) throw new Excess("folders");
  if (found.files.length + files.length > MOST.files) throw new Excess("files");
  if (folders.length && depth === MOST.depth) throw new Excess("depth");
  for (const each of await Promise.all(files.map(read))) {
    found.files.push(each);
    found.bytes += each.file.size;
  }
  if (found.bytes > MOST.bytes) throw new Excess("bytes");
  for (const folder of folders) {
    const reader = folder.createReader();
    for (;;) {
      // It gives some of them at a time.
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) break;
      await walk(some, found, depth + 1);
    }
  }
}

async function read(entry) {
  if (entry instanceof File) return { path: entry.name, file: entry };
  return { path: entry.fullPath.slice(1), file: await new Promise((resolve, reject) => entry.file(resolve, reject)) };
}
