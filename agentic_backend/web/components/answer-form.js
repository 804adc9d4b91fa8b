/** The answer to a question: a form for its schema, or words, a yes or a no where nothing says more. */

import { answerIn, enteredIn, formOf } from "../answer-schema.js";
import { visible } from "../format.js";
import { WritingForm } from "./decision-forms.js";
import { html, useId, useMemo, useState } from "./html.js";

const MOST_BUTTONS = 6;
const YES_AND_NO = [
  { label: "Yes", value: true },
  { label: "No", value: false },
];
const NEITHER = { label: "Neither", value: null };

/** `entered` is what has been entered so far, by the name of its field; `onEnter` gets it as it grows. */
export function AnswerForm({ schema, entered, stopping, onEnter, onAnswer }) {
  const form = useMemo(() => schema && formOf(schema), [schema]);
  if (!form) {
    return html`<${WordsForm} entered=${entered} stopping=${stopping} onEnter=${onEnter} onAnswer=${onAnswer} />`;
  }
  const options = form.isObject ? null : buttonsFor(form.fields[0]);
  if (options) {
    return html`<div class="approval-actions">
      <${OptionButtons} options=${options} stopping=${stopping} onAnswer=${onAnswer} />
    </div>`;
  }
  return html`<${FieldsForm}
    form=${form}
    entered=${entered}
    stopping=${stopping}
    onEnter=${onEnter}
    onAnswer=${onAnswer}
  />`;
}

/** The answers that one click gives, or null if there are too many for buttons. */
function buttonsFor({ kind, options, isNullable }) {
  const answers = kind === "boolean" ? YES_AND_NO : kind === "choice" ? options : null;
  if (!answers || answers.length > MOST_BUTTONS) return null;
  return isNullable ? [...answers, NEITHER] : answers;
}

function OptionButtons({ options, stopping, onAnswer }) {
  return options.map(
    ({ label, value }, place) => html`<button
      key=${place}
      type="button"
      class="button"
      data-testid="answer-option"
      disabled=${stopping}
      onClick=${() => onAnswer(value)}
    >
      ${visible(label)}
    </button>`,
  );
}

function WordsForm({ entered, stopping, onEnter, onAnswer }) {
  const text = entered.answer ?? "";
  const submit = () => text.trim() && onAnswer(text);
  return html`<${WritingForm}
    label="Your answer"
    text=${text}
    rows="1"
    testId="answer"
    submitsOnEnter
    onWrite=${(answer) => onEnter({ answer })}
    onSubmit=${submit}
  >
    <button type="submit" class="button primary" data-testid="send-answer" disabled=${stopping || !text.trim()}>
      Answer
    </button>
    <${OptionButtons} options=${YES_AND_NO} stopping=${stopping} onAnswer=${onAnswer} />
  <//>`;
}

function FieldsForm({ form, entered, stopping, onEnter, onAnswer }) {
  /** What is wrong is told once one has tried to send it. */
  const [problems, setProblems] = useState({});
  const submitted = (event) => {
    event.preventDefault();
    const { answer, problems: found } = answerIn(form, entered);
    setProblems(found ?? {});
    if (!found) onAnswer(answer);
  };
  return html`<form class="decision-form" data-testid="answer-form" noValidate onSubmit=${submitted}>
    ${form.fields.map(
      (field) => html`<${Field}
        key=${field.name}
        field=${field}
        value=${enteredIn(entered, field)}
        problem=${problems[field.name]}
        onEnter=${(value) => onEnter({ ...entered, [field.name]: value })}
      />`,
    )}
    <div class="approval-actions">
      <button type="submit" class="button primary" data-testid="send-answer" disabled=${stopping}>Answer</button>
    </div>
  </form>`;
}

function Field({ field, value, problem, onEnter }) {
  const id = useId();
  const described = [field.help && `${id}-help`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const Input = { boolean: YesOrNo, choice: Options, json: Json, text: Words }[field.kind] ?? Words;
  return html`<div class="answer-field" data-testid="answer-field" data-kind=${field.kind}>
    <label for=${id} id=${`${id}-label`}>
      ${visible(field.label)}${!field.isRequired && html`<span class="muted"> (optional)</span>`}
    </label>
    ${field.help && html`<p class="muted" id=${`${id}-help`}>${visible(field.help)}</p>`}
    <${Input} id=${id} field=${field} value=${value} problem=${problem} described=${described} onEnter=${onEnter} />
    ${problem && html`<p class="problem" id=${`${id}-problem`} role="alert" data-testid="answer-problem">${problem}</p>`}
  </div>`;
}

function Words({ id, field, value, problem, described, onEnter }) {
  const isNumber = field.kind !== "text";
  const shared = {
    id,
    value,
    "aria-invalid": problem ? "true" : undefined,
    "aria-describedby": described,
    "aria-required": String(field.isRequired),
    onInput: ({ target }) => onEnter(target.value),
  };
  if (isNumber) return html`<input ...${shared} type="text" inputmode="decimal" autocomplete="off" />`;
  return html`<textarea ...${shared} rows=${Math.min(8, value.split("\n").length)} />`;
}

function Json({ id, value, problem, described, onEnter }) {
  return html`<textarea
    id=${id}
    class="code-field"
    rows=${Math.min(12, Math.max(3, value.split("\n").length))}
    spellcheck="false"
    placeholder="JSON"
    aria-invalid=${problem ? "true" : undefined}
    aria-describedby=${described}
    value=${value}
    onInput=${({ target }) => onEnter(target.value)}
  />`;
}

function Options({ id, field, value, problem, described, onEnter }) {
  return html`<select
    id=${id}
    aria-invalid=${problem ? "true" : undefined}
    aria-describedby=${described}
    onChange=${({ target }) => onEnter(target.value)}
  >
    <option value="" selected=${value === ""}>Choose…</option>
    ${field.options.map(
      ({ label }, place) =>
        html`<option key=${place} value=${String(place)} selected=${value === String(place)}>${visible(label)}</option>`,
    )}
  </select>`;
}

function YesOrNo({ id, field, value, described, onEnter }) {
  const mayBeNeither = !field.isRequired || field.isNullable;
  return html`<div class="yes-or-no" role="radiogroup" id=${id} aria-labelledby=${`${id}-label`} aria-describedby=${described}>
    ${(mayBeNeither ? [...YES_AND_NO, NEITHER] : YES_AND_NO).map(
      ({ label, value: option }) => html`<label key=${label}>
        <input type="radio" name=${id} checked=${value === option} onChange=${() => onEnter(option)} />${label}
      </label>`,
    )}
  </div>`;
}
