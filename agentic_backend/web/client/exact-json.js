/**
 * JSON whose numbers stay what they are: large ones, which JavaScript would round or write in another form, keep their
 * text.
 *
 * What a person approves of must be shown exactly, and an edit must not change what it doesn't touch. Where a runtime
 * doesn't know `JSON.rawJSON` (Node 20), large integers are rounded as by `JSON.parse`; see `isExact`.
 */

/** An escaped backslash, or half a character. */
const ESCAPE = /\\\\|\\ud[89a-f][\da-f]{2}/g;
const LONG_NUMBER = /\d{16}|\de\+?\d{2}/i;

/** TypeScript doesn't know it yet. @type {((text: string) => object) | undefined} */
const rawJSON = /** @type {any} */ (JSON).rawJSON;

/**
 * Like `JSON.parse`; a large number is a `JSON.rawJSON`, which `JSON.stringify` writes as it came. Throws SyntaxError
 * also for a number that would become infinite, because JSON has no such value.
 *
 * @param {string} text
 * @returns {any}
 */
export function parseExactly(text) {
  return LONG_NUMBER.test(text) ? JSON.parse(text, exactly) : JSON.parse(text);
}

/**
 * What JSON keeps of a value, which nobody else can change any more. Throws TypeError if JSON can't write it.
 *
 * @template T
 * @param {T} value
 * @returns {T}
 */
export function jsonCopy(value) {
  return parseExactly(JSON.stringify(value, finite));
}

/**
 * `text` without halves of characters, which a browser lets people type and no UTF-8 can hold: U+FFFD is in their place.
 *
 * @param {string} text
 */
export const wellFormed = (text) => text.replace(/\p{Surrogate}/gu, "\ufffd");

/**
 * What every server reads: `JSON.stringify` writes half a character as an escape, which is no JSON to many.
 *
 * @param {unknown} value
 */
export const writtenJson = (value) =>
  JSON.stringify(value).replace(ESCAPE, (escape) => (escape === "\\\\" ? escape : "\ufffd"));

/**
 * JSON.stringify would write null for NaN and infinities.
 *
 * @param {string} _name
 * @param {unknown} value
 */
function finite(_name, value) {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`JSON has no ${value}`);
  return value;
}

/**
 * @param {string} _name
 * @param {unknown} value
 * @param {{ source?: string }} [context]  of a number its text; not known to Node 20
 */
function exactly(_name, value, context) {
  if (typeof value !== "number") return value;
  const source = context?.source ?? "";
  const isInteger = /^-?\d+$/.test(source);
  if (!Number.isFinite(value) && !(isInteger && rawJSON)) throw new SyntaxError("a number is too large");
  // Also of 1e20, which JSON.stringify would write as an integer of 21 digits.
  return isLarge(value) && rawJSON ? rawJSON(source) : value;
}

/** @param {number} value */
const isLarge = (value) => !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value));

/**
 * Whether every number in a value that `parseExactly` made is the one in its text. Where a runtime doesn't know
 * `JSON.rawJSON`, that can't be told of large ones.
 *
 * @param {unknown} value
 * @returns {boolean}
 */
export function isExact(value) {
  if (typeof value === "number") return !isLarge(value);
  return typeof value !== "object" || value === null || Object.values(value).every(isExact);
}
