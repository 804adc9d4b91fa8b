/** What a person writes to decide: why not, or other arguments. */

import { parseExactly } from "../client/exact-json.js";
import { formatJson } from "../format.js";
import { html, useId, useLayoutEffect, useRef, useState } from "./html.js";

/** `onReject` gets the reason, or undefined where none was given. */
export function RejectForm({ onReject, onCancel }) {
  const [reason, setReason] = useState("");
  return html`<${WritingForm}
    label="What should it do instead? (optional)"
    text=${reason}
    rows="2"
    testId="reject-message"
    onWrite=${setReason}
    onSubmit=${() => onReject(reason.trim() || undefined)}
    onCancel=${onCancel}
  >
    <button type="submit" class="button danger" data-testid="confirm-reject">Reject</button>
  <//>`;
}

/** The arguments as JSON, to be changed; `onEdit` gets them, and gets nothing that is no JSON object. */
export function EditForm({ args, text: written, onWrite, onEdit, onCancel }) {
  const text = written ?? formatJson(args);
  const { value, problem } = objectIn(text);
  return html`<${WritingForm}
    label="Arguments (JSON)"
    text=${text}
    rows=${Math.min(16, Math.max(4, text.split("\n").length))}
    isCode
    testId="edit-args"
    problem=${problem}
    onWrite=${onWrite}
    onSubmit=${() => onEdit(value)}
    onCancel=${onCancel}
  >
    <button type="submit" class="button primary" data-testid="confirm-edit" disabled=${Boolean(problem)}>
      Run with these
    </button>
  <//>`;
}

/** A form of one text; Ctrl+Enter sends it, and Enter too with `submitsOnEnter`. Without `onCancel` it stays open. */
export function WritingForm({ label, text, rows, isCode, testId, problem, submitsOnEnter, onWrite, onSubmit, ...rest }) {
  const { onCancel, children } = rest;
  const area = useRef(null);
  const id = useId();
  // Opened by its own button, it is where one goes on; the field of a question waits for its reader.
  useLayoutEffect(() => onCancel && area.current.focus(), []);

  const typed = (event) => {
    if (event.key === "Escape") onCancel?.();
    const sends = event.ctrlKey || event.metaKey || (submitsOnEnter && !event.shiftKey);
    if (event.key !== "Enter" || !sends || event.isComposing || event.keyCode === 229) return;
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
      ref=${area}
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
    ${problem && html`<p class="problem" id=${`${id}-problem`} role="status" data-testid="edit-problem">${problem}</p>`}
    <div class="approval-actions">
      ${children}
      ${onCancel && html`<button type="button" class="button" data-testid="cancel" onClick=${onCancel}>Cancel</button>`}
    </div>
  </form>`;
}

/** `{value}`, or `{problem}` in words for who wrote it. */
function objectIn(text) {
  try {
    const value = parseExactly(text);
    if (value !== null && typeof value === "object" && !Array.isArray(value) && !isNumber(value)) return { value };
    return { problem: "The arguments must be a JSON object: { … }" };
  } catch (error) {
    return { problem: `This is not JSON yet: ${error.message}` };
  }
}

/** What is too large for a JavaScript number is an object; see exact-json.js. */
const isNumber = (value) => Boolean(JSON.isRawJSON?.(value));
