/**
 * What is written in the composer as the answer to the one question that waits.
 *
 * Pure. A call is never decided so: a person who writes may not have looked at its arguments.
 */

import { answerIn, formOf } from "./answer-schema.js";
import { openApprovals } from "./client/approvals.js";
import { YES_AND_NO } from "./yes-and-no.js";

/** Whether words can answer what `exchange` waits for. */
export const takesWords = (exchange) => Boolean(onlyQuestion(exchange)) && !onlyQuestion(exchange).form?.isObject;

/** `{request, decision}`; null where `text` is no answer to the only question of `exchange`. */
export function answerFrom(exchange, text) {
  const question = onlyQuestion(exchange);
  if (!question || !text.trim()) return null;
  const found = answerTo(question, text);
  return found && { request: question.request, decision: { action: "answer", answer: found.value } };
}

function onlyQuestion(exchange) {
  const questions = openApprovals(exchange).filter(({ request }) => !request.name);
  if (questions.length !== 1) return null;
  const [{ request }] = questions;
  return { request, form: request.response_schema && !request.choices?.length ? formOf(request.response_schema) : null };
}

function answerTo({ request: { choices }, form }, text) {
  if (choices?.length) return named(choices.flatMap(({ id, label }) => [option(label, id), option(id, id)]), text);
  if (!form) return { value: text };
  if (form.isObject) return null;
  const [{ kind, options }] = form.fields;
  if (kind === "choice") return named(options, text);
  if (kind === "boolean") return named(YES_AND_NO, text);
  if (kind === "choices") return null;
  const { answer, problems } = answerIn(form, { answer: text });
  return problems ? null : { value: answer };
}

const option = (label, value) => ({ label, value });

const named = (options, text) => options.find(({ label }) => folded(label) === folded(text)) ?? null;

const folded = (text) => text.trim().toLocaleLowerCase();
