/** What can be done with the open conversation. */

import { t } from "../i18n.js";
import { ConfirmDialog } from "./confirm-dialog.js";
import { html, useState } from "./html.js";
import { Menu } from "./menu.js";

/** `session` is null in a new conversation; `draft` has what is chosen for what is asked next. */
export function SessionMenu({ session, draft, chatProfiles, actions: { conversation, showShortcuts }, onRename }) {
  const [ending, setEnding] = useState(false);
  const isActive = session?.state === "active";
  const items = [
    session && { label: t("Rename"), icon: "pencil", testId: "rename-open", onSelect: onRename },
    ...(session && !isActive ? [] : profileItems(session, draft, chatProfiles, conversation)),
    isActive && {
      label: t("End the conversation"),
      icon: "stop",
      testId: "end-session",
      onSelect: () => setEnding(true),
    },
    { separator: true },
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

/** The chat profiles that there are to choose from, if there are several. */
function profileItems(session, { chatProfile }, chatProfiles, conversation) {
  if (chatProfiles.length < 2) return [];
  const own = session?.chat_profile ?? null;
  const choose = (name) => () => conversation.draft({ chatProfile: name === own ? undefined : name });
  const named = chatProfiles.map(({ name, description }) => ({
    label: t("Profile: {name}", { name }),
    title: description,
    checked: (chatProfile ?? own) === name,
    testId: "profile",
    onSelect: choose(name),
  }));
  const agents = {
    label: t("The agent’s own profile"),
    checked: !chatProfile,
    testId: "profile",
    onSelect: choose(null),
  };
  return [{ separator: true }, ...(session ? [] : [agents]), ...named, { separator: true }];
}
