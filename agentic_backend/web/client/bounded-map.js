/**
 * A Map that keeps a number of entries: beyond it, the oldest goes.
 *
 * @template K, V
 * @extends {Map<K, V>}
 */
export class BoundedMap extends Map {
  #most;

  /** @param {number} most */
  constructor(most) {
    super();
    this.#most = most;
  }

  /**
   * @override
   * @param {K} key
   * @param {V} value
   */
  set(key, value) {
    super.set(key, value);
    if (this.size > this.#most) this.delete(/** @type {K} */ (this.keys().next().value));
    return this;
  }
}
