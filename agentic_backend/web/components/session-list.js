/** The conversations under their headings; more of them are read as they are scrolled. */

import { t } from "../i18n.js";
import { entriesOf, grouped } from "../session-entries.js";
import { html, useCallback, useEffect, useMemo, useRef } from "./html.js";
import { useListFocus } from "./list-focus.js";
import { SessionItem } from "./session-item.js";

/** `selected` are the families that are selected, or null unless several are being selected. */
export function SessionList({ sessions, unread, openId, openFamily, selected, actions, onSelect }) {
  const entries = useMemo(() => entriesOf(sessions.items, sessions.going, unread), [sessions, unread]);
  const focus = useListFocus();
  const open = useCallback((id) => {
    actions.openSession(actions.branches.lastOpen(actions.sessions.find(id)));
    actions.sidebar.closeDrawer();
  }, []);
  const item = ({ familyId, session, state }) => html`<${SessionItem}
    key=${familyId}
    familyId=${familyId}
    session=${session}
    state=${state}
    current=${familyId === openFamily || session.id === openId}
    isSelected=${selected ? selected.has(familyId) : null}
    actions=${actions}
    onOpen=${open}
    onSelect=${onSelect}
  />`;
  return html`<div class="session-list" data-testid="session-list" ...${focus}>
    ${grouped(entries).map(
      ([name, group]) => html`<section key=${name}>
        <h2>${name}</h2>
        <ul>
          ${group.map(item)}
        </ul>
      </section>`,
    )}
    <${ListEnd} sessions=${sessions} isEmpty=${entries.length === 0} actions=${actions} />
  </div>`;
}

/** The end of the list asks for more as soon as it comes into sight; its button does the same by hand. */
function ListEnd({ sessions: { cursor, archive, loading, error }, isEmpty, actions }) {
  const end = useRef(null);
  useEffect(() => {
    if (!cursor || loading || error) return undefined;
    const seen = new IntersectionObserver(([entry]) => entry.isIntersecting && actions.sessions.more(), {
      root: end.current.closest(".session-list"),
      rootMargin: "300px",
    });
    seen.observe(end.current);
    return () => seen.disconnect();
  }, [cursor, loading, error]);

  if (error) {
    return html`<div class="list-end" role="alert">
      <p class="muted">${error}</p>
      <button type="button" class="button" onClick=${() => actions.sessions.refresh()}>${t("Try again")}</button>
    </div>`;
  }
  if (cursor) {
    return html`<div class="list-end" ref=${end}>
      <button
        type="button"
        class="button"
        data-testid="more-sessions"
        aria-disabled=${loading ? "true" : undefined}
        onClick=${() => actions.sessions.more()}
      >
        ${loading ? t("Loading…") : t("More")}
      </button>
    </div>`;
  }
  if (!isEmpty) return null;
  const nothing = archive ? t("Nothing is archived.") : t("Your conversations will be listed here.");
  return html`<p class="list-end muted">${loading ? t("Loading…") : nothing}</p>`;
}
