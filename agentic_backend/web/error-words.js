/**
 * Errors in the page's language.
 *
 * The server tells what went wrong in English, often more exactly than its code does: in another language its words
 * stand in parentheses behind those for the code.
 */

import { language, t } from "./i18n.js";

const SENTENCES = {
  internal: "Something went wrong on the server.",
  bad_frame: "The server did not understand this.",
  message_too_large: "The message is too large.",
  unauthenticated: "You are not signed in.",
  token_expired: "Your sign-in has expired.",
  forbidden: "You have no access to this.",
  session_not_found: "This conversation does not exist.",
  exchange_not_found: "This answer does not exist.",
  agent_not_found: "This agent does not exist.",
  agent_conflict: "The agent has been changed meanwhile.",
  agent_invalid: "The agent's entry is not accepted.",
  attachment_not_found: "This file does not exist.",
  attachment_sent: "This file was sent: it is deleted with its conversation.",
  document_unreadable: "The file can't be read.",
  not_found: "This does not exist.",
  method_not_allowed: "This can't be done here.",
  session_completed: "This conversation is completed.",
  assignment_not_open: "The assignment is not open yet.",
  assignment_closed: "The assignment is closed.",
  session_busy: "Something still runs in this conversation.",
  approval_not_found: "Nothing waits for this decision any more.",
  approval_required: "You have to approve of this first.",
  approval_mismatch: "The arguments are not those that were shown.",
  ambiguous_interrupt: "The agent asks several things at once in a way that can't be told apart.",
  blocked: "This may not be said here.",
  checkpoint_missing: "Nothing was kept to continue from.",
  state_refused: "What was kept of the agent's state can't be read.",
  limit_reached: "A limit has been reached.",
  budget_exceeded: "The budget is used up.",
  rate_limited: "That was too much at once. Wait a little.",
  too_many_runs: "Too many answers are being written. Wait until one has ended.",
  overloaded: "The server has too much to do. Wait a moment.",
  application_unavailable: "The application is not available.",
  record_conflict: "This has been changed meanwhile, or is there already.",
  agent_unavailable: "The agent could not be started.",
  model_error: "The language model failed.",
  model_timeout: "The language model did not answer in time.",
  model_refused_key: "The language model's provider refused the server's key.",
  model_not_found: "The provider has no such language model.",
  model_quota: "The quota at the language model's provider is used up.",
  context_too_long: "The conversation is too long for the language model.",
  content_filtered: "The language model's provider filtered the content.",
  answer_invalid: "The answer is not in the format that was asked for.",
  auth_unavailable: "Your sign-in can't be checked at the moment. Try again soon.",
  store_unavailable: "The server can't reach its storage. Nothing was saved.",
  shutting_down: "The server is going down. Try again in a moment.",
  interrupted: "The answer was interrupted.",
  unreachable: "The server can't be reached.",
};

/** Whether what `errorText` says also says when to try again, or what to do instead. */
export function isAdvice({ code, content }) {
  const said = (language === "en" && content) || SENTENCES[code];
  return /\b(try|ask) again\b|\bwait\b|\bsend less\b/i.test(said ?? "");
}

/** What went wrong, of an error event or an ApiError's `{code, content}`. */
export function errorText({ code, content }) {
  const sentence = SENTENCES[code] ?? SENTENCES.internal;
  if (language === "en") return content || sentence;
  return content && content !== sentence && code !== "unreachable" ? `${t(sentence)} (${content})` : t(sentence);
}
