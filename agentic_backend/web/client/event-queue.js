/**
 * Events on their way to one reader, an async iterator.
 *
 * Bounded: what a slow reader has no room for is dropped, and all that follows too, until it has read the rest. Then
 * `onDrained` asks the server to show it anew.
 */

const MOST_EVENTS = 1_000;
const MOST_CHARACTERS = 4 * 1024 * 1024;

/** @template T */
export class EventQueue {
  /** @type {{ event: T, size: number }[]} */
  #waiting = [];
  #size = 0;
  #isDropping = false;
  /** @type {{ error: Error | null } | null} */
  #ending = null;
  /** @type {{ resolve: (result: IteratorResult<T, undefined>) => void, reject: (error: Error) => void } | null} */
  #reader = null;
  #onDrained;
  #onLeft;

  /**
   * @param {() => void} onDrained
   * @param {() => void} onLeft  the reader wants no more
   */
  constructor(onDrained, onLeft) {
    this.#onDrained = onDrained;
    this.#onLeft = onLeft;
  }

  /** Whether events were dropped, and the reader still has others to read. */
  get isDropping() {
    return this.#isDropping;
  }

  /**
   * Gives an event to the reader; false if it was dropped.
   *
   * @param {T} event
   * @param {number} size  in characters
   */
  put(event, size) {
    if (this.#ending || this.#isDropping) return false;
    if (this.#reader) {
      this.#reader.resolve({ done: false, value: event });
      this.#reader = null;
      return true;
    }
    const first = this.#waiting.length === 0;
    this.#isDropping = !first && (this.#waiting.length >= MOST_EVENTS || this.#size + size > MOST_CHARACTERS);
    if (this.#isDropping) return false;
    this.#waiting.push({ event, size });
    this.#size += size;
    return true;
  }

  /**
   * Nothing follows what was put; the reader then gets `error`, if there is one.
   *
   * @param {Error | null} error
   */
  end(error = null) {
    this.#ending ??= { error };
    const reader = this.#reader;
    this.#reader = null;
    if (!reader) return;
    if (error) reader.reject(error);
    else reader.resolve({ done: true, value: undefined });
  }

  /** @returns {Promise<IteratorResult<T, undefined>>} */
  async next() {
    const first = this.#waiting.shift();
    if (first) {
      this.#size -= first.size;
      return { done: false, value: first.event };
    }
    if (this.#ending?.error) throw this.#ending.error;
    if (this.#ending) return { done: true, value: undefined };
    if (this.#reader) throw new Error("these events already have a reader");
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
      if (!this.#isDropping) return;
      this.#isDropping = false;
      this.#onDrained();
    });
  }

  /** @returns {Promise<IteratorResult<T, undefined>>} */
  async return() {
    this.#waiting = [];
    if (!this.#ending) {
      this.end();
      this.#onLeft();
    }
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}
