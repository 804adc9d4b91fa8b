/** What keeps a changed catalog from being served, for its author; it goes when that is mended. */

import { t } from "../i18n.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

export function ReloadNotice({ problems }) {
  if (!problems.length) return null;
  return html`<div class="notice error reload-notice" role="status" data-testid="reload-problems">
    <${Icon} name="warning" />
    <div class="notice-text">
      <p>${t("What was saved has errors. What was there before goes on.")}</p>
      <p>${problems.join("\n")}</p>
    </div>
  </div>`;
}
