/** What can be done with the open conversation. */

import { t } from "../i18n.js";
import { ConfirmDialog } from "./confirm-dialog.js";
import { html, useState } from "./html.js";
import { Menu } from "./menu.js";

export function SessionMenu({ session, actions: { conversation } }) {
  const [ending, setEnding] = useState(false);
  const isActive = session.state === "active";
  const items = [
    isActive && {
      label: t("End the conversation"),
      icon: "check",
      testId: "end-session",
      onSelect: () => setEnding(true),
    },
  ];
  if (!items.some(Boolean)) return null;
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
