/** Keeps the focus in the list of conversations when the one that has it moves to another group or goes away. */

import { useLayoutEffect, useRef } from "./html.js";

/** The properties of the list's element; its entries are `li` with the session's id. */
export function useListFocus() {
  const list = useRef(null);
  /** The entry that has the focus: `{session, index}`, or null. */
  const last = useRef(null);
  useLayoutEffect(() => {
    if (!last.current || document.activeElement !== document.body) return;
    const titles = titlesIn(list.current);
    const { session, index } = last.current;
    const same = titles.find((title) => title.closest("li").dataset.session === session);
    (same ?? titles[Math.min(index, titles.length - 1)] ?? document.querySelector(".new-chat")).focus();
  });
  const focused = ({ target }) => {
    const entry = target.closest("li[data-session]");
    const titles = titlesIn(list.current);
    last.current = entry && {
      session: entry.dataset.session,
      index: titles.indexOf(entry.querySelector(".session-title")),
    };
  };
  const left = ({ target }) =>
    // An entry that is no longer there has not been left by its user.
    requestAnimationFrame(() => {
      if (target.isConnected && !list.current?.contains(document.activeElement)) last.current = null;
    });
  return { ref: list, onFocusIn: focused, onFocusOut: left };
}

const titlesIn = (list) => [...(list?.querySelectorAll(".session-title") ?? [])];
