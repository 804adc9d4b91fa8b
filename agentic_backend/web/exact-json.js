/**
 * JSON whose numbers stay what they are: integers too large for a JavaScript number keep all their digits.
 *
 * What a person approves of must be shown exactly, and an edit must not change what it doesn't touch.
 */

const LONG_NUMBER = /\d{16}|\de\+?\d{2}/i;

/**
 * Like `JSON.parse`; such an integer is a `JSON.rawJSON`, which `JSON.stringify` writes as it came. Throws SyntaxError
 * also for a number that would become infinite, because JSON has no such value.
 */
export function parseExactly(text) {
  return LONG_NUMBER.test(text) ? JSON.parse(text, exactly) : JSON.parse(text);
}

function exactly(_name, value, context) {
  const isInteger = /^-?\d+$/.test(context?.source);
  if (typeof value === "number" && !Number.isFinite(value) && !(isInteger && JSON.rawJSON)) {
    throw new SyntaxError("a number is too large");
  }
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && isInteger;
  return isRounded && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}
