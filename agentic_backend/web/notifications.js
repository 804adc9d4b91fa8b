/**
 * Tells a user who looks elsewhere that a long answer has ended, or waits for them.
 *
 * A notification names the agent and nothing of the conversation: it may be seen by others, and is kept by the system.
 * The tab's title counts what has ended since, whether notifications are on or not.
 */

import { brand } from "./brand.js";
import { browserStorage } from "./browser-storage.js";
import { isOngoing } from "./client/transcript-exchange.js";
import { t } from "./i18n.js";

const KEY = "chat.notifications";
const LONG_MS = 10_000;

export const canNotify = "Notification" in window && isSecureContext;

export const notifies = () => canNotify && browserStorage.get(KEY) === "on" && Notification.permission === "granted";

/** Switches notifications on or off; resolves to whether they are on. */
export async function switchNotifications(isOn) {
  const granted = isOn && (await Notification.requestPermission()) === "granted";
  if (granted) browserStorage.set(KEY, "on");
  else browserStorage.delete(KEY);
  return granted;
}

export class Notifications {
  /** The last exchange of the conversation that is open: `{sessionId, key, since, isWaiting}` while it goes on. */
  #watched = null;
  #count = 0;

  /** `onCount` gets the number of what has ended since the user looked. */
  constructor(store, onCount) {
    this.onCount = onCount;
    store.subscribe((state) => this.#follow(state));
    document.addEventListener("visibilitychange", () => !document.hidden && this.#set(0));
  }

  #follow({ conversation: { sessionId, session, transcript }, agents }) {
    const last = transcript.exchanges.at(-1);
    const before = this.#watched;
    const isWaiting = last?.status === "awaiting_human";
    const isSame = before !== null && before.sessionId === sessionId && before.key === last?.key;
    const goesOn = last !== undefined && isOngoing(last);
    if (isSame && document.hidden && (goesOn ? isWaiting && !before.isWaiting : true)) {
      const name = agents.find(({ id }) => id === session?.agent_id)?.name ?? brand.name;
      this.#tell(name, isWaiting, Date.now() - before.since);
    }
    const since = isSame && !(before.isWaiting && !isWaiting) ? before.since : Date.now();
    this.#watched = goesOn ? { sessionId, key: last.key, since, isWaiting } : null;
  }

  #tell(name, isWaiting, tookMs) {
    this.#set(this.#count + 1);
    if (tookMs < LONG_MS || !notifies()) return;
    const body = isWaiting ? t("Waits for your decision.") : t("Has answered.");
    const shown = new Notification(name, { body, tag: "agentic-chat" });
    shown.onclick = () => {
      window.focus();
      shown.close();
    };
  }

  #set(count) {
    if (count === this.#count) return;
    this.#count = count;
    this.onCount(count);
  }
}
