/**
 * What of a request's `value`, the payload of the graph's interrupt, its card doesn't show in another place.
 *
 * Nothing may be decided unseen: whatever isn't shown as the question, the choices or the call is shown as it is.
 */

/** By the name of a field: whether the card shows it as part of the call. */
const OF_A_CALL = new Set([
  "type",
  "name",
  "args",
  "description",
  "tool_call_id",
  "action_request",
  "action_requests",
  "review_configs",
  "config",
]);

/** The rest as `{name: value}`; null if there is none. A value that is no object stands under the name `value`. */
export function unshownOf({ value, name, question, choices }, title) {
  if (value === undefined || value === null || value === question) return null;
  if (typeof value !== "object" || Array.isArray(value)) return name ? null : { value };
  const rest = Object.entries(value).filter(([field, content]) => {
    if (name) return !OF_A_CALL.has(field);
    if (choices?.length && (field === "choices" || field === "options")) return false;
    return content !== question && !(field === "title" && content === title);
  });
  return rest.length ? Object.fromEntries(rest) : null;
}
