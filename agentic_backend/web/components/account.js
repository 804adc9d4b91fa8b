/** Who is signed in, what they may choose for this page, and the way out. */

import { t } from "../i18n.js";
import { html, useState } from "./html.js";
import { Icon } from "./icons.js";
import { lazy } from "./lazy.js";
import { Menu } from "./menu.js";

const SettingsDialog = lazy(async () => (await import("./settings-dialog.js")).SettingsDialog);

/** The administration is a page of its own, loaded anew. */
const manageAgents = () => location.assign("#admin/agents");

/** `user` is null where nobody signs in. */
export function Account({ user, isAdmin, actions }) {
  const [hasSettings, setSettings] = useState(false);
  const items = [
    { label: t("Settings"), icon: "sliders", testId: "open-settings", onSelect: () => setSettings(true) },
    isAdmin && { label: t("Manage agents"), icon: "tool", testId: "manage-agents", onSelect: manageAgents },
    { label: t("Keyboard shortcuts"), icon: "keyboard", hint: "?", onSelect: actions.showShortcuts },
    user && { separator: true },
    user && { label: t("Sign out"), icon: "leave", testId: "sign-out", onSelect: actions.signOut },
  ];
  return html`<div class="account" data-testid="account">
    <${Menu}
      label=${t("Account and settings")}
      testId="account-menu"
      class="account-button"
      align="start"
      items=${items}
    >
      <${Icon} name=${user ? "person" : "sliders"} />
      <span class="account-name">${user?.name ?? t("Settings")}</span>
      <${Icon} name="more" />
    <//>
    ${hasSettings && html`<${SettingsDialog} onClose=${() => setSettings(false)} />`}
  </div>`;
}
