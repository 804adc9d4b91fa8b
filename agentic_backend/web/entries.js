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
  remove(familyIds, { title } = {}) {
    const { sessionId, session } = this.store.state.conversation;
    const wasOpen = session && familyIds.includes(familyOf(session)) ? sessionId : null;
    this.sessions.hide(familyIds);
    if (wasOpen) this.conversation.startNew({ replace: true });
    const deleted = title
      ? t("“{title}” deleted", { title })
      : plural(familyIds.length, "{count} conversation deleted", "{count} conversations deleted");
    const listed = familyIds.map((familyId) => this.sessions.family(familyId).length - 1);
    const say = this.undo.offer({
      text: withVariants(deleted, sum(listed)),
      undo: () => {
        this.sessions.bringBack(familyIds);
        if (wasOpen) return this.conversation.open(wasOpen);
      },
      commit: (options) => this.sessions.remove(familyIds, options),
    });
    this.#countAll(familyIds, listed).then((counts) => say(withVariants(deleted, sum(counts))));
  }

  /** How many branches each family has; more of them than are `listed`, perhaps. */
  #countAll(familyIds, listed) {
    const count = (familyId, index) => this.sessions.countBranches(familyId).catch(() => listed[index]);
    return Promise.all(familyIds.map(count));
  }
}

const sum = (counts) => counts.reduce((total, count) => total + count, 0);

/** `deleted` says what is; its variants go with it. */
function withVariants(deleted, branches) {
  if (!branches) return deleted;
  return plural(branches, "{deleted} with {count} variant", "{deleted} with {count} variants", { deleted });
}
