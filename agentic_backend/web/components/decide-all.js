/** Several calls that wait may be decided at once. */

import { openApprovals } from "../client/approvals.js";
import { allowedOf } from "../decisions.js";
import { plural, t } from "../i18n.js";
import { RejectForm } from "./decision-forms.js";
import { useFocusBack } from "./focus.js";
import { html, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";

export function DecideAll({ exchange, onDecide }) {
  /** These outlast a decision that is refused. */
  const [rejecting, setRejecting] = useState(false);
  const [reason, setReason] = useState("");
  const buttons = useRef(null);
  useFocusBack(buttons, rejecting ? "reject-all" : null);
  const open = openApprovals(exchange);
  const allow = (action) => open.length > 1 && open.every(({ request }) => allowedOf(request).includes(action));
  const decide = (decision) => onDecide(open.map(({ request }) => ({ request, decision })));
  if (!allow("approve") && !allow("reject")) return null;
  if (rejecting && allow("reject")) {
    const reject = (message) => decide({ action: "reject", ...(message && { message }) });
    return html`<${RejectForm}
      count=${open.length}
      reason=${reason}
      onWrite=${setReason}
      onReject=${reject}
      onCancel=${() => setRejecting(false)}
    />`;
  }
  const shared = { type: "button", disabled: exchange.stopping };
  return html`<p class="decide-all" ref=${buttons}>
    ${
      allow("approve") &&
      html`<button
        ...${shared}
        class="button primary"
        data-testid="approve-all"
        onClick=${() => decide({ action: "approve" })}
      >
        <${Icon} name="check" />${plural(open.length, "Approve {count}", "Approve all {count}")}
      </button>`
    }
    ${
      allow("reject") &&
      html`<button ...${shared} class="button" data-testid="reject-all" onClick=${() => setRejecting(true)}>
        <${Icon} name="cross" />${plural(open.length, "Reject {count}", "Reject all {count}")}
      </button>`
    }
    <span class="muted">${t("Each can also be decided by itself.")}</span>
  </p>`;
}
