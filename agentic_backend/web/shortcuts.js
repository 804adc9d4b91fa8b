/**
 * The page's keyboard shortcuts: one table, and which of them a key press means.
 *
 * `Mod` is ⌘ on Apple's keyboards and Ctrl on others. Keys that write something count only while nobody types, and not
 * at all where they are switched off: people who speak to their computer press them without wanting to.
 */

import { browserStorage } from "./browser-storage.js";
import { isComposing } from "./composing.js";
import { t } from "./i18n.js";

const SINGLE_KEYS = "chat.single-keys";
const MAC = /Mac|iPhone|iPad/.test(navigator.platform);

/** Those without `does` belong to the field that one writes in, or to the list. */
export const SHORTCUTS = [
  { keys: ["Enter"], text: t("Send the message, or keep it for when the answer has ended") },
  { keys: ["Shift", "Enter"], text: t("Begin a new line") },
  { keys: ["ArrowUp"], text: t("Edit the last question, while nothing is written") },
  { keys: ["ArrowRight"], text: t("In the list: to the menu of a conversation, and back") },
  { keys: ["Escape"], does: "stop", text: t("Stop the answer") },
  { keys: ["Mod", "K"], does: "search", text: t("Search conversations") },
  { keys: ["Mod", "Shift", "O"], does: "startNew", text: t("New chat") },
  { keys: ["/"], does: "write", text: t("Write a message"), isSingle: true },
  { keys: ["?"], does: "showShortcuts", text: t("Show this list"), isSingle: true },
];

const NAMES = { Mod: MAC ? "⌘" : t("Ctrl"), Shift: MAC ? "⇧" : "Shift", ArrowUp: "↑", ArrowRight: "→", Escape: "Esc" };

/** A key as its keyboard names it. */
export const keyName = (key) => NAMES[key] ?? key;

export const usesSingleKeys = () => browserStorage.get(SINGLE_KEYS) !== "off";

/** Whether keys that write something are shortcuts too. */
export function switchSingleKeys(isOn) {
  if (isOn) browserStorage.delete(SINGLE_KEYS);
  else browserStorage.set(SINGLE_KEYS, "off");
}

/** What a key press does, by name, or undefined. */
export function shortcutOf(event) {
  if (event.defaultPrevented || isComposing(event)) return undefined;
  return SHORTCUTS.find((shortcut) => shortcut.does && isMeant(shortcut, event))?.does;
}

function isMeant({ keys, does, isSingle }, event) {
  const key = keys.at(-1);
  if (isSingle) return event.key === key && !hasModifier(event) && usesSingleKeys() && !isTyping(event.target);
  if (does === "stop") return event.key === key && !hasModifier(event) && !isClosedByEscape(event.target);
  const isPressed = event.key.toUpperCase() === key && (MAC ? event.metaKey : event.ctrlKey) && !event.altKey;
  return isPressed && event.shiftKey === keys.includes("Shift");
}

const hasModifier = ({ ctrlKey, metaKey, altKey }) => ctrlKey || metaKey || altKey;

const isTyping = (target) => target.matches("input, textarea, select, [contenteditable]");

/** Whether Escape leaves something else: a menu, a dialog, the list on a narrow screen, another field. */
const isClosedByEscape = (target) =>
  document.querySelector(":popover-open, dialog[open], .drawer-open") !== null ||
  (isTyping(target) && target.id !== "composer");
