/** What a frame sends, as JSON has it: copied step by step, so that nothing takes longer than its bounds say. */

const MOST_STEPS = 50_000;
const MOST_CHARACTERS = 1_000_000;
const DEEPEST = 50;

/** `{value, steps}`; null for what is no JSON, or too large. An object in several places counts in each. */
export function plainJson(data) {
  const left = { steps: MOST_STEPS, characters: MOST_CHARACTERS };
  try {
    const value = copied(data, left, 0);
    return { value, steps: MOST_STEPS - left.steps };
  } catch {
    return null;
  }
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function copied(value, left, depth) {
  step(left);
  if (depth > DEEPEST) throw new RangeError();
  switch (typeof value) {
    case "string":
      return text(value, left);
    case "number":
      if (!Number.isFinite(value)) throw new TypeError();
      return value;
    case "boolean":
      return value;
    case "object":
      return value === null ? null : composed(value, left, depth);
    default:
      throw new TypeError();
  }
}

function composed(value, left, depth) {
  if (Array.isArray(value)) {
    if (value.length > left.steps) throw new RangeError();
    return Array.from(value, (item) => copied(item, left, depth + 1));
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) throw new TypeError();
  const made = {};
  for (const key in value) {
    const item = value[key];
    if (item === undefined) step(left);
    // Also a key that would mean something else.
    else Object.defineProperty(made, text(key, left), { value: copied(item, left, depth + 1), ...OWN });
  }
  return made;
}

const OWN = { enumerable: true, configurable: true, writable: true };

function step(left) {
  if ((left.steps -= 1) < 0) throw new RangeError();
}

function text(value, left) {
  if ((left.characters -= value.length) < 0) throw new RangeError();
  return value;
}
