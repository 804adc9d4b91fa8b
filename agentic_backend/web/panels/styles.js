/** The style sheet of panels, which a page without them never loads. */

let loading = null;

/** Resolves when it is there, or can't be had: panels are usable without. */
export function styled() {
  loading ??= new Promise((resolve) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("styles/panels.css", document.querySelector("script[type=module]").src).href;
    link.onload = link.onerror = resolve;
    document.head.append(link);
  });
  return loading;
}
