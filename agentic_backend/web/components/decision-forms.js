/** What a person writes to decide: why not, or other arguments. */

import { answerIn, enteredFor, formOf } from "../answer-schema.js";
import { parseExactly } from "../client/exact-json.js";
import { isComposing } from "../composing.js";
import { editableJson } from "../format.js";
import { plural, t } from "../i18n.js";
import { FieldsForm, Unseen } from "./fields.js";
import { html, useId, useLayoutEffect, useMemo, useRef } from "./html.js";
import { reveal } from "./scrolled-view.js";

/** A form that its own button has opened: it takes the focus, and Escape closes it wherever in it the focus is. */
function Opened({ onCancel, children }) {
  const form = useRef(null);
  useLayoutEffect(() => {
    form.current.querySelector("input, textarea, select, button").focus({ preventScroll: true });
    reveal(form.current);
  }, []);
  const typed = (event) => {
    if (event.key !== "Escape" || isComposing(event)) return;
    event.preventDefault();
    event.stopPropagation();
    onCancel();
  };
  return html`<div ref=${form} onKeyDown=${typed}>${children}</div>`;
}

/** `onReject` gets the reason, or undefined where none was given. `count` calls are rejected. */
export function RejectForm({ count = 1, reason, onWrite, onReject, onCancel }) {
  return html`<${Opened} onCancel=${onCancel}><${WritingForm}
    label=${t("What should it do instead? (optional)")}
    text=${reason}
    rows="2"
    testId="reject-message"
    onWrite=${onWrite}
    onSubmit=${() => onReject(reason.trim() || undefined)}
    onCancel=${onCancel}
  >
    <button type="submit" class="button danger" data-testid="confirm-reject">
      ${count === 1 ? t("Reject") : plural(count, "Reject {count}", "Reject all {count}")}
    </button>
  <//><//>`;
}

/**
 * The arguments of a call, to be changed: in a form where their schema makes one that says just the same, else as JSON.
 *
 * `written` is what has been changed so far, `{entered}` or `{text}`.
 */
export function EditForm({ args, schema, written, onWrite, onEdit, onCancel }) {
  const form = useMemo(() => schema && formOf(schema), [schema]);
  const initial = useMemo(() => form && enteredFor(form, args), [form, args]);
  const cancel = html`<button type="button" class="button" data-testid="cancel" onClick=${onCancel}>
    ${t("Cancel")}
  </button>`;
  if (!initial || written?.text !== undefined) {
    const text = written?.text ?? editableJson(args);
    return html`<${Opened} key="json" onCancel=${onCancel}>
      <${JsonForm} text=${text} onWrite=${onWrite} onEdit=${onEdit} onCancel=${onCancel} />
    <//>`;
  }
  return html`<${Opened} key="fields" onCancel=${onCancel}><${FieldsForm}
    form=${form}
    entered=${written?.entered ?? initial}
    command=${t("Run with these")}
    onEnter=${(entered) => onWrite({ entered })}
    onAnswer=${onEdit}
  >
    ${cancel}
    <button
      type="button"
      class="link-button"
      data-testid="edit-as-json"
      onClick=${() => onWrite({ text: editableJson(answerIn(form, written?.entered ?? initial).answer ?? args) })}
    >
      ${t("Edit as JSON")}
    </button>
  <//><//>`;
}

/** `onEdit` gets nothing that is no JSON object. */
function JsonForm({ text, onWrite, onEdit, onCancel }) {
  const { value, problem } = objectIn(text);
  return html`<${WritingForm}
    label=${t("Arguments (JSON)")}
    text=${text}
    rows=${Math.min(16, Math.max(4, text.split("\n").length))}
    isCode
    testId="edit-args"
    problem=${problem}
    onWrite=${(changed) => onWrite({ text: changed })}
    onSubmit=${() => onEdit(value)}
    onCancel=${onCancel}
  >
    <button type="submit" class="button primary" data-testid="confirm-edit" disabled=${Boolean(problem)}>
      ${t("Run with these")}
    </button>
  <//>`;
}

/** A form of one text; Ctrl+Enter sends it, and Enter too with `submitsOnEnter`. Without `onCancel` it stays open. */
export function WritingForm({ label, text, rows, isCode, testId, problem, submitsOnEnter, onWrite, onSubmit, ...rest }) {
  const { onCancel, children } = rest;
  const id = useId();

  const typed = (event) => {
    const sends = event.ctrlKey || event.metaKey || (submitsOnEnter && !event.shiftKey);
    if (event.key !== "Enter" || !sends || isComposing(event)) return;
    event.preventDefault();
    if (!problem) onSubmit();
  };
  const submitted = (event) => {
    event.preventDefault();
    onSubmit();
  };
  return html`<form class="decision-form" onSubmit=${submitted}>
    <label for=${id}>${label}</label>
    <textarea
      id=${id}
      class=${isCode ? "code-field" : undefined}
      rows=${rows}
      spellcheck=${!isCode}
      data-testid=${testId}
      aria-invalid=${problem ? "true" : undefined}
      aria-describedby=${problem ? `${id}-problem` : undefined}
      value=${text}
      onInput=${({ target }) => onWrite(target.value)}
      onKeyDown=${typed}
    />
    ${isCode && html`<${Unseen} text=${text} />`}
    ${problem && html`<p class="problem" id=${`${id}-problem`} role="status" data-testid="edit-problem">${problem}</p>`}
    <div class="approval-actions">
      ${children}
      ${onCancel && html`<button type="button" class="button" data-testid="cancel" onClick=${onCancel}>
        ${t("Cancel")}
      </button>`}
    </div>
  </form>`;
}

/** `{value}`, or `{problem}` in words for who wrote it. */
function objectIn(text) {
  try {
    const value = parseExactly(text);
    if (value !== null && typeof value === "object" && !Array.isArray(value) && !isNumber(value)) return { value };
    return { problem: t("The arguments must be a JSON object.") };
  } catch (error) {
    return { problem: t("This is not JSON yet: {error}", { error: error.message }) };
  }
}

/** What is too large for a JavaScript number is an object; see exact-json.js. */
const isNumber = (value) => Boolean(JSON.isRawJSON?.(value));
