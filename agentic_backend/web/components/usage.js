/** What an answer or a conversation took, in a panel that a button opens: tokens, time, and the cost by model. */

import { errorText } from "../error-words.js";
import { formatCosts, formatCount } from "../format.js";
import { t } from "../i18n.js";
import { html, useEffect, useId, useState } from "./html.js";
import { usePopover } from "./popover.js";

/** `facts` are `[name, value]` that are known already; `load()` gives the sums by model, see Api.usage. */
export function Usage({ label, facts = [], load, testId, class: name = "quiet-button", align = "start", children }) {
  const id = useId();
  const popover = usePopover({ align, onShown: (panel) => panel.focus() });
  return html`<button
      type="button"
      class=${name}
      aria-haspopup="dialog"
      title=${label}
      data-testid=${testId}
      ...${popover.button}
    >
      ${children} <span class="visually-hidden">${label}</span>
    </button>
    ${
      popover.isOpen &&
      html`<div
        class="usage"
        role="dialog"
        aria-labelledby=${id}
        tabindex="-1"
        data-testid="usage-panel"
        ...${popover.panel}
      >
        <h3 id=${id}>${label}</h3>
        <${Facts} facts=${facts} />
        ${load && html`<${ByModel} load=${load} />`}
      </div>`
    }`;
}

function Facts({ facts }) {
  if (!facts.length) return null;
  return html`<dl>
    ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

function ByModel({ load }) {
  const [read, setRead] = useState(null);
  useEffect(() => {
    load().then(
      (usage) => setRead({ usage }),
      (failure) => setRead({ error: errorText(failure) }),
    );
  }, []);
  if (!read) return html`<p class="muted" role="status">${t("Loading")}</p>`;
  if (read.error) return html`<p class="notice error" role="alert">${read.error}</p>`;
  const { sums, priced } = read.usage;
  if (!sums.length) return html`<p class="muted">${t("No call of a model is recorded.")}</p>`;
  return html`<table data-testid="usage-by-model">
    <thead>
      <tr>
        <th scope="col">${t("Model")}</th>
        <th scope="col">${t("Calls")}</th>
        <th scope="col">${t("Tokens in")}</th>
        <th scope="col">${t("Tokens out")}</th>
        ${priced && html`<th scope="col">${t("Cost")}</th>`}
      </tr>
    </thead>
    <tbody>
      ${sums.map(
        ({ keys, calls, estimated_calls: estimated, input_tokens: input, output_tokens: output, costs }) => {
          // Of a call that was broken off, the provider tells no tokens: the server estimates them.
          const about = estimated ? "≈\u00a0" : "";
          return html`<tr key=${keys.model}>
            <th scope="row">${keys.model}</th>
            <td>${formatCount(calls)}</td>
            <td>${about}${formatCount(input)}</td>
            <td>${about}${formatCount(output)}</td>
            ${priced && html`<td>${costs.length ? about + formatCosts(costs) : "–"}</td>`}
          </tr>`;
        },
      )}
    </tbody>
  </table>`;
}
