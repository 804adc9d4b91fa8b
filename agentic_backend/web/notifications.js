/**
 * Tells a user who looks elsewhere that a long answer has ended, or waits for them.
 *
 * A notification names the agent and nothing of the conversation: it may be seen by others, and is kept by the system.
 * The tab's title counts what has ended since, whether notifications are on or not. The open conversation's transcript
 * tells of it; of the others the server does, and they are silent while another tab of the page is in sight, whose list
 * shows them.
 */

import { brand } from "./brand.js";
import { browserStorage } from "./browser-storage.js";
import { isOngoing } from "./client/transcript-exchange.js";
import { t } from "./i18n.js";
import { isAnySeen, showWhenSeen } from "./tab.js";

const KEY = "chat.notifications";
const LONG_MS = 10_000;
const MOST_ACTIVE = 200;

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
  /** The last exchange of the conversation that is open: `{key, since, isWaiting}` while it goes on. */
  #watched = null;
  /** What goes on in all conversations, by session: `{since, isWaiting}`. */
  #active = new Map();
  #count = 0;

  /** `onCount` gets the number of what has ended since the user looked. */
  constructor(store, onCount) {
    Object.assign(this, { store, onCount });
    showWhenSeen();
    store.subscribe((state) => this.#follow(state));
    document.addEventListener("visibilitychange", () => !document.hidden && this.#set(0));
  }

  /** The server has told of a session. */
  async received({ type, session, status }) {
    if (type !== "session") return;
    const before = this.#active.get(session.id);
    const now = this.#heard(session, status, before);
    // Who has stopped an answer knows that it has ended.
    const isNews = now ? now.isWaiting && !before?.isWaiting : (status ?? before) && status !== "stopped";
    const { conversation, agents } = this.store.state;
    if (!isNews || session.id === conversation.sessionId || (await isAnySeen())) return;
    // What it has not heard the beginning of has gone on at least since the page is there.
    const since = before?.since ?? performance.timeOrigin;
    this.#tell(nameOf(session.agent_id, agents), now ? "awaiting_human" : status, Date.now() - since);
  }

  /** What goes on in the session now, or null; without `status` as it did before. */
  #heard({ id, active_exchange_id: active }, status, before) {
    this.#active.delete(id);
    if (!active) return null;
    const isWaiting = status ? status === "awaiting_human" : Boolean(before?.isWaiting);
    const since = before && !(before.isWaiting && !isWaiting) ? before.since : Date.now();
    this.#active.set(id, { since, isWaiting });
    if (this.#active.size > MOST_ACTIVE) this.#active.delete(this.#active.keys().next().value);
    return { isWaiting };
  }

  #follow({ conversation: { session, transcript }, agents }) {
    const last = transcript.exchanges.at(-1);
    const before = this.#watched;
    const isWaiting = last?.status === "awaiting_human";
    const isSame = before !== null && before.key === last?.key;
    const goesOn = last !== undefined && isOngoing(last);
    if (isSame && document.hidden && (goesOn ? isWaiting && !before.isWaiting : true)) {
      this.#tell(nameOf(session?.agent_id, agents), last?.status, Date.now() - before.since);
    }
    const since = isSame && !(before.isWaiting && !isWaiting) ? before.since : Date.now();
    this.#watched = goesOn ? { key: last.key, since, isWaiting } : null;
  }

  #tell(name, status, tookMs) {
    this.#set(this.#count + 1);
    if (tookMs < LONG_MS || !notifies()) return;
    const shown = new Notification(name, { body: wordsFor(status), tag: "agentic-chat" });
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

const nameOf = (agentId, agents) => agents.find(({ id }) => id === agentId)?.name ?? brand.name;

/** Of an exchange that has ended without a status the messages tell how. */
function wordsFor(status) {
  if (status === "awaiting_human") return t("Waits for your decision.");
  return status && status !== "ok" ? t("Ended without an answer") : t("Has answered.");
}
