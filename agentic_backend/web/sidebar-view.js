/**
 * How the sidebar is shown: folded away on a wide screen, which is remembered, or as a drawer on a narrow one.
 *
 * Owns `state.sidebar`: `{folded, drawer, searches}`; `searches` counts how often somebody wanted to search.
 */

import { browserStorage } from "./browser-storage.js";

const KEY = "chat.sidebar";

const isNarrow = () => matchMedia("(max-width: 48rem)").matches;

export const sidebarAsLeft = () => ({ folded: browserStorage.get(KEY) === "folded", drawer: false, searches: 0 });

/** Whether the sidebar is in sight. */
export const isShown = ({ folded, drawer }) => (isNarrow() ? drawer : !folded);

export class SidebarView {
  constructor(store) {
    this.store = store;
  }

  open() {
    if (isNarrow()) return this.#set({ drawer: true });
    browserStorage.delete(KEY);
    this.#set({ folded: false });
  }

  /** Folds it, or closes the drawer. */
  close() {
    if (isNarrow()) return this.closeDrawer();
    browserStorage.set(KEY, "folded");
    this.#set({ folded: true });
  }

  closeDrawer() {
    if (this.store.state.sidebar.drawer) this.#set({ drawer: false });
  }

  /** Shows the sidebar, and puts the cursor into its search. */
  focusSearch() {
    this.open();
    this.#set({ searches: this.store.state.sidebar.searches + 1 });
  }

  #set(patch) {
    this.store.set({ sidebar: { ...this.store.state.sidebar, ...patch } });
  }
}
