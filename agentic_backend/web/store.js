/**
 * The page's state and its subscribers.
 *
 * The state is current as soon as `set` returns; subscribers hear of it at most once per animation frame, so however
 * fast events arrive, the page renders once per frame. A tab in the background gets no frames; there a timer serves.
 */

const BACKGROUND_MS = 250;

export class Store {
  #subscribers = [];
  #scheduled = null;

  constructor(state) {
    this.state = state;
  }

  set(patch) {
    this.state = { ...this.state, ...patch };
    this.#scheduled ??= {
      frame: requestAnimationFrame(() => this.#tell()),
      timer: setTimeout(() => this.#tell(), BACKGROUND_MS),
    };
  }

  subscribe(subscriber) {
    this.#subscribers.push(subscriber);
    subscriber(this.state);
  }

  #tell() {
    cancelAnimationFrame(this.#scheduled.frame);
    clearTimeout(this.#scheduled.timer);
    this.#scheduled = null;
    for (const subscriber of this.#subscribers) subscriber(this.state);
  }
}
