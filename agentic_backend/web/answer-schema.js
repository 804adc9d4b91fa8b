/**
 * The form for an answer that has a JSON Schema, and the value that a filled-in form makes.
 *
 * Pure. A form is `{fields, isObject}`; without `isObject` its one field is the whole answer. A field is `{name, kind,
 * label, help, isRequired, isNullable, mayBeEmpty, initial, options}`: `kind` is `text`, `number`, `integer`, `boolean`,
 * `choice` or `json`, `options` are `[{label, value}]` of a choice. What is entered is a text; `true` or `false` for a boolean, and
 * the place of its option for a choice. A required text left empty is taken for forgotten, unless its schema has a
 * `minLength` of 0 (`mayBeEmpty`). The server checks every answer against the whole schema.
 */

import { parseExactly } from "./client/exact-json.js";
import { formatJson } from "./format.js";

const MOST_FIELDS = 40;
const MOST_OPTIONS = 200;
/** A reference may lead to a reference, and a harmful schema in a circle. */
const MOST_REFERENCES = 16;

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const INTEGER = /^[+-]?\d+$/;

export function formOf(schema) {
  const root = resolved(schema, schema);
  const properties = isObject(root) && isObject(root.properties) ? Object.entries(root.properties) : [];
  if (!properties.length || properties.length > MOST_FIELDS) {
    return { isObject: false, fields: [fieldOf(schema, "answer", schema, true)] };
  }
  const required = new Set(Array.isArray(root.required) ? root.required : []);
  return {
    isObject: true,
    fields: properties.map(([name, part]) => fieldOf(schema, name, part, required.has(name))),
  };
}

/** What stands in a field before anything is entered. */
export const enteredIn = (entered, { name, initial }) => (Object.hasOwn(entered, name) ? entered[name] : initial);

/** `{answer}`, or `{problems}`: what is wrong, by the name of its field, in words for who fills the form in. */
export function answerIn(form, entered) {
  const problems = {};
  const answer = {};
  for (const field of form.fields) {
    const { value, problem } = valueIn(field, enteredIn(entered, field));
    if (problem) problems[field.name] = problem;
    else if (value !== undefined) Object.defineProperty(answer, field.name, { value, enumerable: true });
  }
  if (Object.keys(problems).length) return { problems };
  return { answer: form.isObject ? answer : answer[form.fields[0].name] };
}

function fieldOf(root, name, part, isRequired) {
  const outer = resolved(root, part);
  const { schema, isNullable } = withoutNull(root, outer);
  const options = optionsOf(schema);
  const kind = options ? "choice" : kindOf(schema);
  const given = outer.default ?? schema.default;
  return {
    name,
    kind,
    options,
    isNullable,
    isRequired,
    mayBeEmpty: kind === "text" && schema.minLength === 0,
    label: textIn(outer.title, schema.title) ?? name,
    help: textIn(outer.description, schema.description),
    initial: initialOf(kind, options, given),
  };
}

/** What a field shows for `given`, the default of its schema. */
function initialOf(kind, options, given) {
  if (kind === "choice") {
    const place = options.findIndex(({ value }) => JSON.stringify(value) === JSON.stringify(given));
    return place < 0 ? "" : String(place);
  }
  if (kind === "boolean") return typeof given === "boolean" ? given : null;
  if (given === undefined || given === null) return "";
  return kind === "text" && typeof given === "string" ? given : formatJson(given);
}

/** The parts of a schema that may be null, as pydantic writes `X | None`: that of `X`, and that null is allowed. */
function withoutNull(root, schema) {
  const parts = alternatives(schema).map((part) => resolved(root, part));
  const others = parts.filter(({ type }) => type !== "null");
  if (parts.length > others.length && others.length === 1) return { schema: others[0], isNullable: true };
  if (Array.isArray(schema.type) && schema.type.includes("null")) {
    const types = schema.type.filter((type) => type !== "null");
    return { schema: { ...schema, type: types.length === 1 ? types[0] : types }, isNullable: true };
  }
  return { schema, isNullable: false };
}

function optionsOf(schema) {
  const named = alternatives(schema);
  const consts = named.length > 0 && named.every((part) => isObject(part) && "const" in part);
  const options = consts
    ? named.map((part) => ({ value: part.const, label: textIn(part.title) ?? labelOf(part.const) }))
    : valuesOf(schema)?.map((value) => ({ value, label: labelOf(value) }));
  return options?.length && options.length <= MOST_OPTIONS ? options : null;
}

function valuesOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum;
  return "const" in schema ? [schema.const] : null;
}

function kindOf({ type }) {
  if (type === "string") return "text";
  return ["number", "integer", "boolean"].includes(type) ? type : "json";
}

function valueIn({ kind, options, isRequired, isNullable, mayBeEmpty }, entered) {
  const isMissing = entered === null || (typeof entered === "string" && !entered.trim());
  if (isMissing) {
    if (!isRequired) return {};
    if (mayBeEmpty && !isNullable) return { value: entered };
    return isNullable ? { value: null } : { problem: "This is needed." };
  }
  switch (kind) {
    case "choice":
      return { value: options[Number(entered)].value };
    case "number":
      return NUMBER.test(entered.trim()) ? numberIn(entered) : { problem: "This must be a number." };
    case "integer":
      return INTEGER.test(entered.trim()) ? numberIn(entered) : { problem: "This must be a whole number." };
    case "json":
      return jsonIn(entered);
    default:
      return { value: entered };
  }
}

/**
 * `{value}` or `{problem}`. Integers are exact, also where they are too large for a JavaScript number. JSON knows
 * neither `+1` nor `.5` nor `007`.
 */
function numberIn(entered) {
  const text = entered
    .trim()
    .replace(/^\+/, "")
    .replace(/^(-?)0+(?=\d)/, "$1");
  if (INTEGER.test(text)) return jsonIn(text);
  const value = Number(text);
  return Number.isFinite(value) ? { value } : { problem: "This number is too large." };
}

function jsonIn(entered) {
  try {
    return { value: parseExactly(entered) };
  } catch (error) {
    return { problem: `This is not JSON yet: ${error.message}` };
  }
}

/** `part`, or what its `$ref` names within `root`; `{}` if that leads nowhere. */
function resolved(root, part) {
  let schema = part;
  for (let hop = 0; hop < MOST_REFERENCES && isObject(schema) && typeof schema.$ref === "string"; hop += 1) {
    const { $ref: reference, ...beside } = schema;
    const steps = reference.startsWith("#/") ? reference.slice(2).split("/").map(unescaped) : [];
    const found = steps.reduce((at, step) => (isObject(at) && Object.hasOwn(at, step) ? at[step] : null), root);
    schema = isObject(found) ? { ...found, ...beside } : {};
  }
  return isObject(schema) && typeof schema.$ref !== "string" ? schema : {};
}

/** A step of a JSON Pointer (RFC 6901). */
const unescaped = (step) => step.replaceAll("~1", "/").replaceAll("~0", "~");

const alternatives = (schema) => [schema.anyOf, schema.oneOf].find(Array.isArray) ?? [];

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

const labelOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

const textIn = (...texts) => texts.find((text) => typeof text === "string" && text) ?? null;
