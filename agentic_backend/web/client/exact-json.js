/**
 * JSON whose numbers stay what they are: integers too large for a JavaScript number keep all their digits.
 *
 * What a person approves of must be shown exactly, and an edit must not change what it doesn't touch. Where a runtime
 * doesn't know `JSON.rawJSON` (Node 20), such integers are rounded as by `JSON.parse`.
 */

const LONG_NUMBER = /\d{16}|\de\+?\d{2}/i;

/** TypeScript doesn't know it yet. @type {((text: string) => object) | undefined} */
const rawJSON = /** @type {any} */ (JSON).rawJSON;

/**
 * Like `JSON.parse`; such an integer is a `JSON.rawJSON`, which `JSON.stringify` writes as it came. Throws SyntaxError
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
  return parseExactly(JSON.stringify(value));
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
  return !Number.isSafeInteger(value) && isInteger && rawJSON ? rawJSON(source) : value;
}
