/** What a frame is told of the page around it, as MCP Apps has it: theme, colours and fonts, language, size. */

import { language } from "../i18n.js";

/** The page's own names of what MCP Apps names so. */
const VARIABLES = {
  "--color-background-primary": "--page",
  "--color-background-secondary": "--side",
  "--color-background-tertiary": "--sunken",
  "--color-background-info": "--bubble",
  "--color-background-danger": "--danger-soft",
  "--color-background-warning": "--warn-soft",
  "--color-text-primary": "--text",
  "--color-text-secondary": "--quiet",
  "--color-text-inverse": "--on-accent",
  "--color-text-info": "--accent",
  "--color-text-danger": "--danger",
  "--color-text-success": "--ok",
  "--color-text-warning": "--warn",
  "--color-border-primary": "--edge",
  "--color-border-secondary": "--line",
  "--color-ring-primary": "--accent",
  "--font-sans": "--sans",
  "--font-mono": "--mono",
  "--border-radius-md": "--radius",
};

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

const theme = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");

/** `frame` is the element, `displayMode` is `inline` or `fullscreen`. */
export function hostContext(frame, displayMode) {
  const style = getComputedStyle(root);
  const variables = Object.entries(VARIABLES).map(([name, own]) => [name, style.getPropertyValue(own).trim()]);
  return {
    theme: theme(),
    styles: { variables: Object.fromEntries(variables) },
    locale: language,
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    displayMode,
    availableDisplayModes: [displayMode],
    containerDimensions: sizeOf(frame, displayMode),
    platform: "web",
    direction: root.dir,
  };
}

/** Calls `tell` with what has changed of the context; returns what ends that. */
export function watchContext(frame, displayMode, tell) {
  const themed = () => tell({ theme: theme() });
  const themes = new MutationObserver(themed);
  themes.observe(root, { attributeFilter: ["data-theme"] });
  dark.addEventListener("change", themed);
  const sizes = new ResizeObserver(() => tell({ containerDimensions: sizeOf(frame, displayMode) }));
  sizes.observe(frame);
  return () => {
    themes.disconnect();
    sizes.disconnect();
    dark.removeEventListener("change", themed);
  };
}

/** An inline frame becomes as high as it says that it is. */
function sizeOf(frame, displayMode) {
  const { clientWidth: width, clientHeight: height } = frame;
  return displayMode === "inline" ? { width, maxHeight: HIGHEST } : { width, height };
}

/** Of an inline frame, in pixels. */
export const HIGHEST = 800;
