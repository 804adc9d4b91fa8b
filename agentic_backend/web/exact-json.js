/**
 * JSON whose numbers stay what they are: integers too large for a JavaScript number keep all their digits.
 *
 * What a person approves of must be shown exactly, and an edit must not change what it doesn't touch.
 */

const LONG_NUMBER = /\d{16}/;

/** Like `JSON.parse`; such an integer is a `JSON.rawJSON`, which `JSON.stringify` writes as it came. */
export function parseExactly(text) {
  return LONG_NUMBER.test(text) ? JSON.parse(text, exactly) : JSON.parse(text);
}

function exactly(_name, value, context) {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source);
  return isRounded && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}
