/** The answer to a question: a form for its schema, or words, a yes or a no where nothing says more. */

import { formOf } from "../answer-schema.js";
import { visible } from "../format.js";
import { t } from "../i18n.js";
import { NEITHER, YES_AND_NO } from "../yes-and-no.js";
import { WritingForm } from "./decision-forms.js";
import { FieldsForm } from "./fields.js";
import { html, useMemo } from "./html.js";

const MOST_BUTTONS = 6;

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
    command=${t("Answer")}
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
    label=${t("Your answer")}
    text=${text}
    rows="1"
    testId="answer"
    submitsOnEnter
    onWrite=${(answer) => onEnter({ answer })}
    onSubmit=${submit}
  >
    <button type="submit" class="button primary" data-testid="send-answer" disabled=${stopping || !text.trim()}>
      ${t("Answer")}
    </button>
    <${OptionButtons} options=${YES_AND_NO} stopping=${stopping} onAnswer=${onAnswer} />
  <//>`;
}
