/** What is done with whole entries of the list of sessions, and can be undone: pin, archive, delete. */

import { plural, t } from "./i18n.js";
import { familyOf } from "./sessions.js";

export class Entries {
  constructor({ store, sessions, conversation, undo }) {
    Object.assign(this, { store, sessions, conversation, undo });
  }

  async pin(id, pinned) {
    try {
      await this.sessions.pin(id, pinned);
    } catch (error) {
      this.undo.tell(error);
    }
  }

  async archive(familyIds, archived) {
    try {
      await this.sessions.archive(familyIds, archived);
    } catch (error) {
      return this.undo.tell(error);
    }
    const { length: count } = familyIds;
    const text = archived
      ? plural(count, "{count} conversation archived", "{count} conversations archived")
      : plural(count, "{count} conversation taken out", "{count} conversations taken out");
    this.undo.offer({ text, undo: () => this.sessions.archive(familyIds, !archived) });
  }

  /** Takes the families out of sight at once, and deletes them when nobody has brought them back in time. */
  remove(familyIds, { title, branches = 0 } = {}) {
    const { sessionId, session } = this.store.state.conversation;
    const wasOpen = session && familyIds.includes(familyOf(session)) ? sessionId : null;
    this.sessions.hide(familyIds);
    if (wasOpen) this.conversation.startNew({ replace: true });
    const say = this.undo.offer({
      text: deletedText(familyIds.length, title, branches),
      undo: () => {
        this.sessions.bringBack(familyIds);
        if (wasOpen) return this.conversation.open(wasOpen);
      },
      commit: (options) => this.sessions.remove(familyIds, options),
    });
    if (title) this.#countAll(familyIds[0], branches, (count) => say(deletedText(1, title, count)));
  }

  /** `branches` are those that are listed; there may be more of them. */
  async #countAll(familyId, branches, tell) {
    const count = await this.sessions.countBranches(familyId).catch(() => branches);
    if (count !== branches) tell(count);
  }
}

function deletedText(count, title, branches) {
  if (!title) return plural(count, "{count} conversation deleted", "{count} conversations deleted");
  if (!branches) return t("“{title}” deleted", { title });
  return plural(branches, "“{title}” deleted with {count} variant", "“{title}” deleted with {count} variants", {
    title,
  });
}
