/** The form of a value that has a JSON Schema; see answer-schema.js. */

import { answerIn, enteredIn } from "../answer-schema.js";
import { visible, visibleLines, visibleProse } from "../format.js";
import { t } from "../i18n.js";
import { NEITHER, NO_ANSWER, YES_AND_NO } from "../yes-and-no.js";
import { html, useId, useLayoutEffect, useRef, useState } from "./html.js";
import { reveal } from "./scrolled-view.js";

/** `entered` is what has been entered so far, by the name of its field; `onEnter` gets it as it grows. */
export function FieldsForm({ form, entered, command, stopping, onEnter, onAnswer, children }) {
  /** What is wrong is told once one has tried to send it. */
  const [problems, setProblems] = useState({});
  const element = useRef(null);
  useLayoutEffect(() => {
    const field = element.current.querySelector(".answer-field:has(> .problem)");
    if (!field) return;
    field.querySelector("input, textarea, select").focus({ preventScroll: true });
    reveal(field);
  }, [problems]);
  const submitted = (event) => {
    event.preventDefault();
    const { answer, problems: found } = answerIn(form, entered);
    setProblems(found ?? {});
    if (!found) onAnswer(answer);
  };
  return html`<form ref=${element} class="decision-form" data-testid="answer-form" noValidate onSubmit=${submitted}>
    <${Fields} form=${form} entered=${entered} problems=${problems} onEnter=${onEnter} />
    <div class="approval-actions">
      <button type="submit" class="button primary" data-testid="send-answer" disabled=${stopping}>${command}</button>
      ${children}
    </div>
  </form>`;
}

function Fields({ form, entered, problems, onEnter }) {
  return form.fields.map((field) => {
    const View = field.kind === "object" ? Group : Field;
    return html`<${View}
      key=${field.name}
      field=${field}
      value=${enteredIn(entered, field)}
      problem=${problems[field.name]}
      onEnter=${(value) => onEnter({ ...entered, [field.name]: value })}
    />`;
  });
}

/** `problem` has those of the group's own fields. */
function Group({ field, value, problem = {}, onEnter }) {
  const id = useId();
  return html`<fieldset class="answer-group" aria-describedby=${field.help && id} data-testid="answer-group">
    <legend>${visible(field.label)}<${Optional} field=${field} /></legend>
    ${field.help && html`<p class="muted" id=${id}>${visibleProse(field.help)}</p>`}
    <${Fields} form=${field.form} entered=${value} problems=${problem} onEnter=${onEnter} />
  </fieldset>`;
}

const INPUTS = { boolean: YesOrNo, choice: Options, choices: Checks, json: Json, lines: Lines };

function Field({ field, value, problem, onEnter }) {
  const id = useId();
  const described = [field.help && `${id}-help`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const marks = {
    "aria-invalid": problem ? "true" : undefined,
    "aria-describedby": described,
    "aria-required": String(field.isRequired),
  };
  const Input = INPUTS[field.kind] ?? Words;
  return html`<div class="answer-field" data-testid="answer-field" data-kind=${field.kind}>
    <label for=${id} id=${`${id}-label`}>${visible(field.label)}<${Optional} field=${field} /></label>
    ${field.help && html`<p class="muted" id=${`${id}-help`}>${visibleProse(field.help)}</p>`}
    <${Input} id=${id} field=${field} value=${value} marks=${marks} onEnter=${onEnter} />
    <${Unseen} text=${value} />
    ${problem && html`<p class="problem" id=${`${id}-problem`} role="alert" data-testid="answer-problem">${problem}</p>`}
  </div>`;
}

/** What a field of HTML doesn't show of the text in it. */
export function Unseen({ text }) {
  const shown = typeof text === "string" ? visibleLines(text) : text;
  return (
    shown !== text &&
    html`<div class="unseen muted" role="note" data-testid="unseen">${t("With invisible characters:")} <code>${shown}</code></div>`
  );
}

const Optional = ({ field }) => !field.isRequired && html`<span class="muted"> ${t("(optional)")}</span>`;

function Words({ id, field, value, marks, onEnter }) {
  const shared = { id, value, ...marks, onInput: ({ target }) => onEnter(target.value) };
  if (field.inputType) return html`<input ...${shared} type=${field.inputType} autocomplete="off" />`;
  if (field.kind !== "text") return html`<input ...${shared} type="text" inputmode="decimal" autocomplete="off" />`;
  return html`<textarea ...${shared} dir="auto" rows=${rowsOf(value, 1)} />`;
}

function Lines({ id, value, marks, onEnter }) {
  return html`<textarea
    id=${id}
    dir="auto"
    rows=${rowsOf(value, 2)}
    placeholder=${t("One per line")}
    ...${marks}
    value=${value}
    onInput=${({ target }) => onEnter(target.value)}
  />`;
}

function Json({ id, value, marks, onEnter }) {
  return html`<textarea
    id=${id}
    class="code-field"
    rows=${rowsOf(value, 3)}
    spellcheck="false"
    placeholder="JSON"
    ...${marks}
    value=${value}
    onInput=${({ target }) => onEnter(target.value)}
  />`;
}

const rowsOf = (text, least) => Math.min(12, Math.max(least, text.split("\n").length));

function Options({ id, field, value, marks, onEnter }) {
  return html`<select id=${id} ...${marks} onChange=${({ target }) => onEnter(target.value)}>
    <option value="" selected=${value === ""}>${t("Choose…")}</option>
    ${field.options.map(
      ({ label }, place) =>
        html`<option key=${place} value=${String(place)} selected=${value === String(place)}>${visible(label)}</option>`,
    )}
  </select>`;
}

function Checks({ id, field, value, marks, onEnter }) {
  const toggled = (place) => (value.includes(place) ? value.filter((other) => other !== place) : [...value, place]);
  return html`<div class="options" role="group" id=${id} aria-labelledby=${`${id}-label`} ...${without(marks, "aria-required", "aria-invalid")}>
    ${field.options.map(({ label }, index) => {
      const place = String(index);
      return html`<label key=${place}>
        <input type="checkbox" checked=${value.includes(place)} onChange=${() => onEnter(toggled(place))} />
        ${visible(label)}
      </label>`;
    })}
  </div>`;
}

function YesOrNo({ id, field, value, marks, onEnter }) {
  const third = field.isNullable ? NEITHER : field.isRequired || field.initial !== null ? null : NO_ANSWER;
  return html`<div class="options" role="radiogroup" id=${id} aria-labelledby=${`${id}-label`} ...${marks}>
    ${(third ? [...YES_AND_NO, third] : YES_AND_NO).map(
      ({ label, value: option }) => html`<label key=${label}>
        <input type="radio" name=${id} checked=${value === option} onChange=${() => onEnter(option)} />${label}
      </label>`,
    )}
  </div>`;
}

/** A group of checkboxes can be neither required nor invalid in ARIA 1.2. */
const without = (marks, ...names) => Object.fromEntries(Object.entries(marks).filter(([name]) => !names.includes(name)));
