/**
 * The page's theme: light or dark as the system is, or as was chosen in this browser.
 *
 * The choice is `data-theme` of the document, from which the style sheet takes `color-scheme`; all colours follow it.
 */

import { browserStorage } from "./browser-storage.js";

const KEY = "chat.theme";
/** What the browser paints around the page. */
const FRAMES = { light: "#f6f6f4", dark: "#141518" };

const root = document.documentElement;

export const chosenTheme = () => root.dataset.theme ?? "system";

/** Shows a theme, `system`, `light` or `dark`, and keeps the choice. */
export function chooseTheme(name) {
  if (name === "system") browserStorage.delete(KEY);
  else browserStorage.set(KEY, name);
  show(name);
}

function show(name) {
  if (name in FRAMES) root.dataset.theme = name;
  else delete root.dataset.theme;
  for (const frame of document.querySelectorAll("meta[name=theme-color]")) {
    frame.content = FRAMES[name] ?? FRAMES[frame.media.includes("dark") ? "dark" : "light"];
  }
}

show(browserStorage.get(KEY));
// Other tabs of the page look alike.
addEventListener("storage", ({ key, newValue }) => key === KEY && show(newValue));
