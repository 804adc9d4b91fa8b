/** One conversation in the list, with its menu, and its title while it is being renamed. */

import { t } from "../i18n.js";
import { clickedHere, sessionHref } from "../location.js";
import { archiveItem, deleteItem, pinItem } from "./entry-items.js";
import { html, memo, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";
import { TitleInput } from "./title-input.js";

/** `isSelected` is null unless several are being selected; `state` is `running`, `waiting`, `unread` or null. */
export const SessionItem = memo(({ familyId, session, state, current, isSelected, actions, onOpen, onSelect }) => {
  const [renaming, setRenaming] = useState(false);
  const titleLink = useRef(null);
  const wasRenaming = useRef(false);
  useLayoutEffect(() => {
    if (wasRenaming.current && !renaming) titleLink.current?.focus();
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
  const label = html`<span class="session-name" dir="auto">${title}</span><${State} state=${state} />`;
  if (isSelecting) {
    return html`<${Row} session=${session} current=${current}>
      <button
        type="button"
        class="session-title"
        role="checkbox"
        aria-checked=${String(isSelected)}
        title=${title}
        onClick=${() => onSelect(familyId)}
      >
        <span class="tick"><${Icon} name=${isSelected ? "check" : "blank"} /></span>${label}
      </button>
    <//>`;
  }
  return html`<${Row} session=${session} current=${current} onKeyDown=${movedInRow}>
    <a
      class="session-title"
      ref=${titleLink}
      href=${sessionHref(actions.branches.lastOpen(session))}
      aria-current=${current ? "page" : undefined}
      title=${title}
      onClick=${clickedHere(() => onOpen(session.id))}
    >
      ${label}
    </a>
    <span class="session-actions">
      <${Menu}
        label=${t("Menu of “{title}”", { title })}
        testId="item-menu"
        tabindex="-1"
        items=${itemsFor({ familyId, session, actions, onRename: () => setRenaming(true) })}
      />
    </span>
  <//>`;
});

const Row = ({ session, current, children, ...rest }) =>
  html`<li class=${current ? "session current" : "session"} data-testid="session-item" data-session=${session.id} ...${rest}>
    ${children}
  </li>`;

/** A row is one stop of the Tab key; in it the arrows lead to the menu and back. */
function movedInRow(event) {
  const { key, target, currentTarget } = event;
  if ((key !== "ArrowRight" && key !== "ArrowLeft") || target.closest("[role=menu]")) return;
  event.preventDefault();
  currentTarget.querySelector(target.matches(".session-title") ? ".session-actions button" : ".session-title").focus();
}

function itemsFor({ familyId, session, actions, onRename }) {
  return [
    { label: t("Rename"), icon: "pencil", testId: "rename-session", onSelect: onRename },
    pinItem(session, actions),
    archiveItem(session, familyId, actions),
    { separator: true },
    deleteItem(session, familyId, actions),
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
