/** What can be done with the open conversation. */

import { t } from "../i18n.js";
import { ConfirmDialog } from "./confirm-dialog.js";
import { html, useState } from "./html.js";
import { Menu } from "./menu.js";

/** `session` is null in a new conversation. */
export function SessionMenu({ session, actions: { conversation, showShortcuts } }) {
  const [ending, setEnding] = useState(false);
  const isActive = session?.state === "active";
  const items = [
    isActive && {
      label: t("End the conversation"),
      icon: "check",
      testId: "end-session",
      onSelect: () => setEnding(true),
    },
    isActive && { separator: true },
    { label: t("Keyboard shortcuts"), icon: "keyboard", hint: "?", testId: "show-shortcuts", onSelect: showShortcuts },
  ];
  return html`<${Menu} label=${t("Conversation menu")} testId="session-menu" items=${items} /> ${
      ending &&
      html`<${ConfirmDialog}
        title=${t("End this conversation?")}
        text=${t("It stays readable, but nothing more can be asked in it.")}
        confirm=${t("End it")}
        onConfirm=${() => conversation.end()}
        onClose=${() => setEnding(false)}
      />`
    }`;
}
