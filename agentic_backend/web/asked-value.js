/**
 * What of a request's `value`, the payload of the graph's interrupt, its card doesn't show in another place.
 *
 * Nothing may be decided unseen: a field is left out only where its content is shown as the question, the title, the
 * choices or the call. What isn't is shown as it is. As transports/classic/asked_value.py does for older clients.
 */

const ALLOWED = new Set(["allow_accept", "allow_edit", "allow_respond", "allow_ignore"]);
const OF_A_REVIEW = new Set(["action_name", "allowed_decisions", "args_schema"]);

/** The rest as `{name: value}`; null if there is none. A value that is no object stands under the name `value`. */
export function unshownOf(request, title) {
  const { value, name, question } = request;
  if (value === undefined || value === null || value === question) return null;
  if (!isObject(value)) {
    const rest = name && Array.isArray(value) ? restOfCalls(value, request) : value;
    return isNothing(rest) ? null : { value: rest };
  }
  const rest = name ? restOfCall(value, request) : restOfQuestion(value, request, title);
  return isNothing(rest) ? null : rest;
}

function restOfQuestion(value, { question, choices }, title) {
  const used = ["choices", "options"].find((field) => Array.isArray(value[field]) && value[field].length);
  const rest = Object.entries(value).filter(([field, content]) => {
    if (field === used && areShown(content, choices ?? [])) return false;
    return content !== question && !(field === "title" && content === title);
  });
  return Object.fromEntries(rest);
}

/** What is left of the call, or of an object around it, without what the card shows of it. */
function restOfCall(call, request) {
  if (!isObject(call)) return call;
  const rest = Object.entries(call).map(([field, content]) => [field, restOfField(field, content, request)]);
  return Object.fromEntries(rest.filter(([, content]) => !isNothing(content)));
}

function restOfField(field, content, request) {
  const unless = (isShown) => (isShown ? null : content);
  switch (field) {
    case "name":
    case "action":
      return unless(content === request.name);
    case "args":
      return unless(isSame(content || {}, request.args ?? {}));
    case "description":
      return unless(!content || content === request.question);
    case "type":
      return unless(content === "tool_approval");
    case "tool_call_id":
      return unless(typeof content === "string");
    case "action_request":
      return restOfCall(content, request);
    case "action_requests":
      return Array.isArray(content) ? restOfCalls(content, request) : content;
    case "review_configs":
      return Array.isArray(content)
        ? content.map((review) => without(OF_A_REVIEW, review)).filter((rest) => !isNothing(rest))
        : content;
    case "config":
      return without(ALLOWED, content);
    default:
      return content;
  }
}

/** The rest of the card's own call: the others have cards of their own. Of all, if none can be told apart. */
function restOfCalls(calls, request) {
  const own = calls.filter((call) => isOwn(call, request));
  return (own.length ? own : calls).map((call) => restOfCall(call, request)).filter((rest) => !isNothing(rest));
}

function isOwn(call, { name, args }) {
  const asked = isObject(call) && "action_request" in call ? call.action_request : call;
  return isObject(asked) && (asked.action ?? asked.name) === name && isSame(asked.args || {}, args ?? {});
}

const without = (fields, content) =>
  isObject(content) ? Object.fromEntries(Object.entries(content).filter(([field]) => !fields.has(field))) : content;

/** Whether the choices are all that `own`, the list they were read from, has. */
const areShown = (own, choices) =>
  own.length === choices.length && own.every((one, place) => isShown(one, choices[place]));

function isShown(own, choice) {
  if (!isObject(own)) return textOf(own) === choice.label;
  return Object.entries(own).every(([field, content]) => {
    if (field === "default") return typeof content === "boolean";
    return ["id", "label", "description"].includes(field) && (!content || textOf(content) === choice[field]);
  });
}

const textOf = (content) => (typeof content === "string" ? content : JSON.stringify(content));

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function isNothing(rest) {
  if (rest === null || rest === undefined) return true;
  return typeof rest === "object" && !JSON.isRawJSON?.(rest) && !Object.keys(rest).length;
}
