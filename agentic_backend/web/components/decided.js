/** What a person has decided, in one line. */

import { visible, visibleProse } from "../format.js";
import { t } from "../i18n.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

/** By action: what its button says, what is said when it is done, and its sign. */
export const DECISIONS = {
  approve: { command: t("Approve"), done: t("Approved"), icon: "check" },
  edit: { command: t("Edit"), done: t("Approved with changes"), icon: "pencil" },
  reject: { command: t("Reject"), done: t("Rejected"), icon: "cross" },
  expire: { done: t("Expired"), icon: "cross" },
  answer: { done: t("Answered"), icon: "check" },
};

export function Decided({ request, decision, isSent }) {
  const { done, icon } = DECISIONS[decision?.action] ?? { done: t("No longer open"), icon: "hand" };
  return html`<section
    class="card decided"
    data-testid="approval"
    data-action=${decision?.action}
    data-state=${isSent ? "sent" : "settled"}
  >
    <span class="mark">${isSent ? html`<span class="spinner" />` : html`<${Icon} name=${icon} />`}</span>
    <p>
      <span class="decided-how">${done}</span>${" "}
      ${request.name ? html`<code>${visible(request.name)}</code>` : visibleProse(request.question ?? "")}${" "}
      <${Said} request=${request} decision=${decision} />
    </p>
  </section>`;
}

function Said({ request: { choices }, decision }) {
  if (decision?.action === "answer") {
    const chosen = choices?.find(({ id }) => id === decision.answer)?.label;
    return html`<strong class="said">${visibleProse(chosen ?? inWords(decision.answer))}</strong>`;
  }
  return decision?.message ? html`<q class="said">${visibleProse(decision.message)}</q>` : null;
}

function inWords(answer) {
  if (typeof answer === "boolean") return answer ? t("Yes") : t("No");
  return typeof answer === "string" ? answer : JSON.stringify(answer);
}
