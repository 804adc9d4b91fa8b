/** What can be done with the open conversation. */

import { errorText } from "../error-words.js";
import { t } from "../i18n.js";
import { saveFile } from "../saved-file.js";
import { familyOf } from "../sessions.js";
import { archiveItem, deleteItem, pinItem } from "./entry-items.js";
import { html, useState } from "./html.js";
import { lazy } from "./lazy.js";
import { Menu } from "./menu.js";

const ConfirmDialog = lazy(async () => (await import("./confirm-dialog.js")).ConfirmDialog);
const ShareDialog = lazy(async () => (await import("./share-dialog.js")).ShareDialog);

/** `session` is null in a new conversation; `draft` has what is chosen for what is asked next; `sharing`: see ShareDialog. */
export function SessionMenu(given) {
  const { session, draft, chatProfiles, sharing, onRename } = given;
  const { conversation, showShortcuts } = given.actions;
  const [ending, setEnding] = useState(false);
  const [isSharing, setSharing] = useState(false);
  const [failure, setFailure] = useState(null);
  const isKept = Boolean(session?.message_count);
  const save = (format) => async () => {
    try {
      setFailure(null);
      saveFile(await conversation.api.exported(session.id, format));
    } catch (error) {
      setFailure(errorText(error));
    }
  };
  const isActive = session?.state === "active";
  const items = [
    session && { label: t("Rename"), icon: "pencil", testId: "rename-open", onSelect: onRename },
    session && pinItem(session, given.actions),
    session && archiveItem(session, familyOf(session), given.actions),
    isKept && sharing && { label: t("Share"), icon: "share", testId: "share", onSelect: () => setSharing(true) },
    isKept && { label: t("Save as Markdown"), icon: "download", testId: "export-md", onSelect: save("md") },
    isKept && { label: t("Save as JSON"), icon: "download", testId: "export-json", onSelect: save("json") },
    isKept && chatProfiles.length < 2 && { separator: true },
    ...(session && !isActive ? [] : profileItems(session, draft, chatProfiles, conversation)),
    isActive && {
      label: t("End the conversation"),
      icon: "stop",
      testId: "end-session",
      onSelect: () => setEnding(true),
    },
    session && deleteItem(session, familyOf(session), given.actions),
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
    } ${
      isSharing &&
      html`<${ShareDialog}
        sessionId=${session.id}
        api=${conversation.api}
        sharing=${sharing}
        onClose=${() => setSharing(false)}
      />`
    } ${
      failure &&
      html`<p class="notice error" role="alert" data-testid="export-failed">
        ${failure}
        <button type="button" class="quiet-button" onClick=${() => setFailure(null)}>${t("Close")}</button>
      </p>`
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
