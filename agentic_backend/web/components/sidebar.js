/** The list of conversations: new, search, archive, select several; below it who is signed in. */

import { plural, t } from "../i18n.js";
import { clickedHere, sessionHref } from "../location.js";
import { Account } from "./account.js";
import { Brand } from "./brand.js";
import { html, memo, useCallback, useEffect, useRef, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { lazy } from "./lazy.js";
import { Menu } from "./menu.js";
import { SearchBox } from "./search-box.js";
import { SessionList } from "./session-list.js";

const PlacedPanel = lazy(async () => (await import("../panels/placed-panel.js")).PlacedPanel);
const SelectionBar = lazy(async () => (await import("./selection-bar.js")).SelectionBar);

export const Sidebar = memo(({ user, isAdmin, panels, sessions, search, unread, openId, openFamily, actions }) => {
  const [selected, setSelected] = useState(null);
  const startNew = () => {
    actions.conversation.startNew();
    actions.sidebar.closeDrawer();
  };
  const select = useCallback((familyId) => setSelected((before) => toggled(before, familyId)), []);
  useEffect(() => setSelected(null), [sessions.archive]);
  const endSelecting = () => {
    focusListMenu();
    setSelected(null);
  };
  const leaveArchive = () => {
    focusListMenu();
    actions.sessions.showArchive(false);
  };
  const keyed = (event) => {
    if (event.key !== "Escape" || !selected) return;
    event.preventDefault();
    endSelecting();
  };

  return html`<nav class="sidebar" id="sidebar" aria-label=${t("Conversations")} onKeyDown=${keyed}>
    <div class="sidebar-brand">
      <${Brand} />
      <${ListMenu} archive=${sessions.archive} actions=${actions} onSelect=${() => setSelected(new Set())} />
      <${IconButton}
        name="sidebar"
        label=${t("Hide the list")}
        data-testid="hide-sidebar"
        onClick=${() => actions.sidebar.close()}
      />
    </div>
    <div class="sidebar-head">
      <a class="button new-chat" data-testid="new-chat" href=${sessionHref(null)} onClick=${clickedHere(startNew)}>
        <${Icon} name="plus" />${t("New chat")}
      </a>
    </div>
    <${SearchBox} search=${search} going=${sessions.going} actions=${actions} />
    ${
      !search.query.trim() &&
      html`
        ${sessions.archive && html`<${ArchiveHead} onLeave=${leaveArchive} />`}
        ${selected && html`<${SelectionBar} selected=${selected} archive=${sessions.archive} actions=${actions} onDone=${endSelecting} />`}
        <${SessionList}
          sessions=${sessions}
          unread=${unread}
          openId=${openId}
          openFamily=${openFamily}
          selected=${selected}
          actions=${actions}
          onSelect=${select}
        />
      `
    }
    <p class="visually-hidden" role="status">
      ${selected ? plural(selected.size, "{count} conversation selected", "{count} conversations selected") : ""}
    </p>
    ${panels?.open.sidebar && html`<${PlacedPanel} place="sidebar" shown=${panels} sessionId=${openId} />`}
    <${Account} user=${user} isAdmin=${isAdmin} actions=${actions} />
  </nav>`;
});

function ListMenu({ archive, actions, onSelect }) {
  const items = [
    { label: t("Select several"), icon: "check", testId: "select-several", onSelect },
    archive
      ? {
          label: t("Conversations"),
          icon: "menu",
          testId: "leave-archive",
          onSelect: () => actions.sessions.showArchive(false),
        }
      : {
          label: t("Archived conversations"),
          icon: "archive",
          testId: "show-archive",
          onSelect: () => actions.sessions.showArchive(true),
        },
  ];
  return html`<${Menu} label=${t("More of the list")} testId="list-menu" items=${items} />`;
}

function ArchiveHead({ onLeave }) {
  const button = useRef(null);
  // It was opened from a menu, whose button has the focus: from here on the list is another one.
  useEffect(() => button.current.focus(), []);
  return html`<div class="archive-head">
    <button type="button" class="button" ref=${button} data-testid="archive-back" onClick=${onLeave}>
      <${Icon} name="back" />${t("Back")}
    </button>
    <h2>${t("Archived conversations")}</h2>
  </div>`;
}

const focusListMenu = () => document.querySelector("[data-testid=list-menu]").focus();

function toggled(selected, familyId) {
  const others = [...selected].filter((other) => other !== familyId);
  return new Set(others.length === selected.size ? [...others, familyId] : others);
}
