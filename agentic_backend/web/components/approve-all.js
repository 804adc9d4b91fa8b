/** All that waits may be approved: once for all. */

import { openApprovals } from "../client/approvals.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

export function ApproveAll({ exchange, onDecide }) {
  const open = openApprovals(exchange);
  if (open.length < 2 || !open.every(({ request }) => request.allowed.includes("approve"))) return null;
  const approve = () => onDecide(open.map(({ request }) => ({ request, decision: { action: "approve" } })));
  return html`<p class="approve-all">
    <button
      type="button"
      class="button primary"
      data-testid="approve-all"
      disabled=${exchange.stopping}
      onClick=${approve}
    >
      <${Icon} name="check" />Approve all ${open.length}
    </button>
    <span class="muted">Each can also be decided by itself.</span>
  </p>`;
}
