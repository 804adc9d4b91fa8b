/** What a menu offers for a conversation as an entry of the list: it and its branches together. */

import { t } from "../i18n.js";

export const pinItem = ({ id, pinned, archived }, { entries }) =>
  !archived && {
    label: pinned ? t("Unpin") : t("Pin"),
    icon: "pin",
    testId: "pin-session",
    onSelect: () => entries.pin(id, !pinned),
  };

export const archiveItem = ({ archived }, familyId, { entries }) => ({
  label: archived ? t("Take out of the archive") : t("Archive"),
  icon: "archive",
  testId: "archive-session",
  onSelect: () => entries.archive([familyId], !archived),
});

export const deleteItem = ({ title }, familyId, { entries }) => ({
  label: t("Delete"),
  icon: "trash",
  danger: true,
  testId: "delete-session",
  onSelect: () => entries.remove([familyId], { title }),
});
