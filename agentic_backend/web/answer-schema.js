/**
 * The form for a value that has a JSON Schema, and the value that a filled-in form makes.
 *
 * Pure. A form is `{fields, isObject}`; without `isObject` its one field is the whole value. A field is `{name, kind,
 * label, help, isRequired, isNullable, mayBeEmpty, initial, inputType, options, form}`; by its `kind`, what is entered is
 *
 * - `text`, `number`, `integer`, `json`: a text; `inputType` is that of HTML for a text with a format
 * - `boolean`: `true`, `false` or null
 * - `choice`: the place of one of its `options`, `[{label, value}]`, as a text; `choices`: a list of such places
 * - `lines`: a text, a line for each item of a list of texts
 * - `object`: what is entered in the fields of its own `form`, by their names
 *
 * A required text left empty is taken for forgotten, unless its schema has a `minLength` of 0 (`mayBeEmpty`). The server
 * checks every value against the whole schema.
 */

import { parseExactly } from "./client/exact-json.js";
import { editableJson } from "./format.js";
import { t } from "./i18n.js";

const MOST_FIELDS = 40;
/** Forms within forms; what lies deeper is JSON. */
const MOST_DEPTH = 3;
const MOST_OPTIONS = 200;
/** A reference may lead to a reference, and a harmful schema in a circle. */
const MOST_REFERENCES = 16;

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const INTEGER = /^[+-]?\d+$/;

export function formOf(schema) {
  const whole = objectForm(schema, resolved(schema, schema), 0);
  return whole ?? { isObject: false, fields: [fieldOf(schema, "answer", schema, true, 0)] };
}

/** The form of an object with properties, or null. */
function objectForm(root, schema, depth) {
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  if (!properties.length || properties.length > MOST_FIELDS || depth >= MOST_DEPTH) return null;
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = properties.map(([name, part]) => fieldOf(root, name, part, required.has(name), depth + 1));
  return { isObject: true, fields };
}

/** What to enter for the form to make `value`; null where it can't make just that. */
export function enteredFor(form, value) {
  if (!form.isObject) return null;
  const entered = enteredOf(form, value);
  const { answer, problems } = answerIn(form, entered);
  return problems || canonical(answer) !== canonical(value) || !isKept(form, entered) ? null : entered;
}

/** Whether HTML's inputs keep what is entered: no textarea has a carriage return, no line breaks, no date words. */
const isKept = (form, entered) =>
  form.fields.every((field) => {
    const text = enteredIn(entered, field);
    if (field.kind === "object") return isKept(field.form, text);
    if (typeof text !== "string" || text === "") return true;
    if (field.inputType === "date") return isDate(text);
    return field.inputType ? !/\s/.test(text) : !text.includes("\r");
  });

function isDate(text) {
  const at = new Date(`${text}T00:00Z`);
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text);
}

function enteredOf(form, value) {
  return Object.fromEntries(
    form.fields.map((field) => [field.name, initialOf(field, isObject(value) ? value[field.name] : undefined)]),
  );
}

/** The same for objects whose properties stand in another order. */
const canonical = (value) =>
  JSON.stringify(value, (_name, part) =>
    isObject(part) && !JSON.isRawJSON?.(part)
      ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );

/** What stands in a field before anything is entered. */
export const enteredIn = (entered, { name, initial }) => (Object.hasOwn(entered, name) ? entered[name] : initial);

/**
 * `{answer}`, or `{problems}`: what is wrong, by the name of its field, in words for who fills the form in; for an
 * `object` the problems of its own fields.
 */
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

function fieldOf(root, name, part, isRequired, depth) {
  const outer = resolved(root, part);
  const { schema, isNullable } = withoutNull(root, outer);
  const field = {
    name,
    ...kindOf(root, schema, depth),
    isNullable,
    isRequired,
    mayBeEmpty: schema.type === "string" && schema.minLength === 0,
    label: textIn(outer.title, schema.title) ?? name,
    help: textIn(outer.description, schema.description),
  };
  return { ...field, initial: initialOf(field, outer.default ?? schema.default) };
}

/** What stands in a field for `given`; nothing where it can't stand for that. */
function initialOf({ kind, options, form }, given) {
  switch (kind) {
    case "choice":
      return placesOf(options, [given])[0] ?? "";
    case "choices":
      return Array.isArray(given) ? placesOf(options, given) : [];
    case "boolean":
      return typeof given === "boolean" ? given : null;
    case "lines":
      return Array.isArray(given) ? given.join("\n") : "";
    case "object":
      return isObject(given) ? enteredOf(form, given) : {};
  }
  if (given === undefined || given === null) return "";
  return kind === "text" && typeof given === "string" ? given : editableJson(given);
}

const placesOf = (options, values) =>
  values
    .map((given) => options.findIndex(({ value }) => JSON.stringify(value) === JSON.stringify(given)))
    .filter((place) => place >= 0)
    .map(String);

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

/** The formats of JSON Schema for which browsers have an input of their own, that makes just such texts. */
const INPUT_TYPES = { date: "date", email: "email", uri: "url" };

function kindOf(root, schema, depth) {
  const options = optionsOf(schema);
  if (options) return { kind: "choice", options };
  switch (schema.type) {
    case "string":
      return { kind: "text", inputType: INPUT_TYPES[schema.format] ?? null };
    case "number":
    case "integer":
    case "boolean":
      return { kind: schema.type };
    case "array":
      return listKind(resolved(root, schema.items));
  }
  const form = schema.type === "object" && objectForm(root, schema, depth);
  return form ? { kind: "object", form } : { kind: "json" };
}

function listKind(items) {
  const options = optionsOf(items);
  if (options) return { kind: "choices", options };
  return { kind: items.type === "string" && !items.format ? "lines" : "json" };
}

function valueIn(field, entered) {
  const { kind, options, isRequired, isNullable, mayBeEmpty } = field;
  if (kind === "object") return objectIn(field, entered);
  if (isNothing(entered)) {
    if (!isRequired) return {};
    if (isNullable) return { value: null };
    if (kind === "choices" || kind === "lines") return { value: [] };
    return mayBeEmpty ? { value: entered } : { problem: t("This is needed.") };
  }
  switch (kind) {
    case "choice":
      return { value: options[Number(entered)].value };
    case "choices":
      return { value: options.filter((_option, place) => entered.includes(String(place))).map(({ value }) => value) };
    case "lines":
      return { value: entered.split("\n").filter((line) => line.trim()) };
    case "number":
      return NUMBER.test(entered.trim()) ? numberIn(entered) : { problem: t("This must be a number.") };
    case "integer":
      return INTEGER.test(entered.trim()) ? numberIn(entered) : { problem: t("This must be a whole number.") };
    case "json":
      return jsonIn(entered);
    default:
      return { value: entered };
  }
}

const isNothing = (entered) =>
  entered === null || (typeof entered === "string" && !entered.trim()) || (Array.isArray(entered) && !entered.length);

/** An object that need not be there isn't, where nothing has been entered in it. */
function objectIn({ form, isRequired, isNullable }, entered) {
  if (isUntouched(form, entered) && !isRequired) return {};
  if (isUntouched(form, entered) && isNullable) return { value: null };
  const { answer, problems } = answerIn(form, entered);
  return problems ? { problem: problems } : { value: answer };
}

const isUntouched = (form, entered) =>
  form.fields.every((field) => {
    const value = enteredIn(entered, field);
    return field.kind === "object" ? isUntouched(field.form, value) : String(value) === String(field.initial);
  });

/**
 * `{value}` or `{problem}`. Integers are exact, also where they are too large for a JavaScript number. JSON knows
 * neither `+1` nor `.5` nor `5.` nor `007`.
 */
function numberIn(entered) {
  const text = entered
    .trim()
    .replace(/^\+/, "")
    .replace(/^(-?)0+(?=\d)/, "$1")
    .replace(/^-?(?=\.)/, "$&0")
    .replace(/\.(?!\d)/, "");
  if (!INTEGER.test(text) && !Number.isFinite(Number(text))) return { problem: t("This number is too large.") };
  return jsonIn(text);
}

function jsonIn(entered) {
  try {
    return { value: parseExactly(entered) };
  } catch (error) {
    return { problem: t("This is not JSON yet: {error}", { error: error.message }) };
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
