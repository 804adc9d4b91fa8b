/** The state of the connection, shown only while it is not fine. */

import { html } from "./html.js";
import { Icon } from "./icons.js";

export function ConnectionNotice({ connection: { phase, notice }, onConnect }) {
  if (phase === "open" || phase === "connecting") return null;
  const retrying = phase === "reconnecting";
  return html`<div class=${`connection ${phase}`} role="status" data-testid="connection-state" data-phase=${phase}>
    ${retrying ? html`<span class="spinner" />` : html`<${Icon} name="warning" />`}
    <span>${notice ?? "Connection lost. Reconnecting…"}</span>
    <button type="button" class="button" onClick=${onConnect}>${retrying ? "Retry now" : "Connect again"}</button>
  </div>`;
}
