/** What the list of sessions shows: one entry for each session with its branches, under headings. */

import { dayGroup } from "./format.js";
import { t } from "./i18n.js";
import { familyOf } from "./sessions.js";
import { hasOwn } from "./variants.js";

/**
 * The entries of `items`, both newest first: `{familyId, session, members, state}`. `session` is the one that was used
 * last, but no branch in which nothing was asked; `state` is `waiting`, `running`, `unread` or null, of whichever of the
 * members.
 */
export function entriesOf(items, going, unread) {
  const families = Map.groupBy(items, familyOf);
  return [...families]
    .filter(([familyId]) => !going.has(familyId))
    .map(([familyId, members]) => ({
      familyId,
      session: members.find(hasOwn) ?? members[0],
      members,
      state: stateOf(members, unread),
    }))
    .sort(({ session: one }, { session: other }) => (one.updated_at < other.updated_at ? 1 : -1));
}

function stateOf(members, unread) {
  if (members.some(({ active_exchange_id: active, status }) => active && status === "awaiting_human")) return "waiting";
  if (members.some(({ active_exchange_id: active }) => active)) return "running";
  return members.some(({ id }) => unread.has(id)) ? "unread" : null;
}

/** The entries under the headings of their days, pinned ones first: `[[heading, entries]…]`. */
export function grouped(entries) {
  return [...Map.groupBy(entries, ({ session }) => (session.pinned ? t("Pinned") : dayGroup(session.updated_at)))].sort(
    ([, [a]], [, [b]]) => Number(b.session.pinned) - Number(a.session.pinned),
  );
}
