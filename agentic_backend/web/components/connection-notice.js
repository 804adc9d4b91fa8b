/** The state of the connection, shown only while it is not fine. */

import { t } from "../i18n.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

const COMES_BACK = new Set(["unsure", "reconnecting"]);

export function ConnectionNotice({ connection: { phase, notice }, onConnect }) {
  if (phase === "open" || phase === "connecting") return null;
  const retrying = COMES_BACK.has(phase);
  return html`<div class=${`connection ${phase}`} role="status" data-testid="connection-state" data-phase=${phase}>
    ${retrying ? html`<span class="spinner" />` : html`<${Icon} name="warning" />`}
    <span>${notice ?? t("Connection lost. Reconnecting…")}</span>
    <button type="button" class="button" onClick=${onConnect}>${retrying ? t("Retry now") : t("Connect again")}</button>
  </div>`;
}
