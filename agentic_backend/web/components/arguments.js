/** The arguments of a call, or other named values: exact and readable; long ones are folded. */

import { formatCount, formatJson, visible, visibleLines } from "../format.js";
import { t } from "../i18n.js";
import { html, useId, useState } from "./html.js";

const LONG_CHARACTERS = 400;
const LONG_LINES = 8;

export function Arguments({ args, testId = "approval-args" }) {
  const entries = Object.entries(args ?? {});
  if (!entries.length) return html`<p class="muted">${t("Without arguments")}</p>`;
  return html`<dl class="arguments" data-testid=${testId}>
    ${entries.map(
      ([name, value]) => html`<div key=${name}>
        <dt>${visible(isPlainName(name) ? name : JSON.stringify(name))}</dt>
        <dd><${Value} value=${value} /></dd>
      </div>`,
    )}
  </dl>`;
}

function Value({ value }) {
  const id = useId();
  const [unfolded, setUnfolded] = useState(false);
  const text = visibleLines(isPlain(value) ? value : formatJson(value));
  const isLong = text.length > LONG_CHARACTERS || text.split("\n").length > LONG_LINES;
  return html`<pre id=${id} class=${isLong && !unfolded ? "value folded" : "value"}>${text}</pre>
    ${
      isLong &&
      html`<button
        type="button"
        class="link-button"
        aria-expanded=${String(unfolded)}
        aria-controls=${id}
        onClick=${() => setUnfolded(!unfolded)}
      >
        ${unfolded ? t("Show less") : t("Show all {count} characters", { count: formatCount(text.length) })}
      </button>`
    }`;
}

/** Whether one sees where a name begins and ends. */
const isPlainName = (name) => name !== "" && name === name.trim();

/** A text that can stand without quotes: nobody would take it for a number, say, or for nothing. */
function isPlain(value) {
  if (typeof value !== "string" || value !== value.trim() || value === "") return false;
  try {
    JSON.parse(value);
    return false;
  } catch {
    return true;
  }
}
