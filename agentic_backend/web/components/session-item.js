/** One conversation in the list, with its menu, and its title while it is being renamed. */

import { t } from "../i18n.js";
import { html, memo, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";
import { TitleInput } from "./title-input.js";

/** `isSelected` is null unless several are being selected; `state` is `running`, `waiting`, `unread` or null. */
export const SessionItem = memo(({ familyId, session, state, current, isSelected, actions, onOpen, onSelect }) => {
  const [renaming, setRenaming] = useState(false);
  const titleButton = useRef(null);
  const wasRenaming = useRef(false);
  useLayoutEffect(() => {
    if (wasRenaming.current && !renaming) titleButton.current?.focus();
    wasRenaming.current = renaming;
  }, [renaming]);
  const title = session.title || t("New conversation");
  const isSelecting = isSelected !== null;

  if (renaming) {
    return html`<li class="session">
      <${TitleInput}
        title=${session.title}
        onRename=${(wanted) => actions.sessions.rename(session.id, wanted)}
        onClose=${() => setRenaming(false)}
      />
    </li>`;
  }
  return html`<li
    class=${current ? "session current" : "session"}
    data-testid="session-item"
    data-session=${session.id}
  >
    <button
      type="button"
      class="session-title"
      ref=${titleButton}
      role=${isSelecting ? "checkbox" : undefined}
      aria-checked=${isSelecting ? String(isSelected) : undefined}
      aria-current=${current && !isSelecting ? "page" : undefined}
      title=${title}
      onClick=${() => (isSelecting ? onSelect(familyId) : onOpen(session.id))}
    >
      ${isSelecting && html`<span class="tick"><${Icon} name=${isSelected ? "check" : "blank"} /></span>`}
      <span class="session-name" dir="auto">${title}</span>
      <${State} state=${state} />
    </button>
    ${
      !isSelecting &&
      html`<span class="session-actions">
        <${Menu}
          label=${t("Menu of “{title}”", { title })}
          testId="item-menu"
          items=${itemsFor({ familyId, session, actions, onRename: () => setRenaming(true) })}
        />
      </span>`
    }
  </li>`;
});

function itemsFor({ familyId, session, actions, onRename }) {
  const { id, title, pinned, archived } = session;
  return [
    { label: t("Rename"), icon: "pencil", testId: "rename-session", onSelect: onRename },
    !archived && {
      label: pinned ? t("Unpin") : t("Pin"),
      icon: "pin",
      testId: "pin-session",
      onSelect: () => actions.entries.pin(id, !pinned),
    },
    {
      label: archived ? t("Take out of the archive") : t("Archive"),
      icon: "archive",
      testId: "archive-session",
      onSelect: () => actions.entries.archive([familyId], !archived),
    },
    { separator: true },
    {
      label: t("Delete"),
      icon: "trash",
      danger: true,
      testId: "delete-session",
      onSelect: () => actions.entries.remove([familyId], { title }),
    },
  ];
}

function State({ state }) {
  switch (state) {
    case "waiting":
      return html`<span class="waiting-mark" role="img" aria-label=${t("Waits for you")} title=${t("Waits for you")}
        ><${Icon} name="hand"
      /></span>`;
    case "running":
      return html`<span class="running-dot" role="img" aria-label=${t("Running")} title=${t("Running")} />`;
    case "unread":
      return html`<span class="unread-dot" role="img" aria-label=${t("Unread")} title=${t("Unread")} />`;
    default:
      return null;
  }
}
