/** The page's own files that no module imports, in the version that runs. */

export const ownFile = (path) => new URL(path, document.querySelector("script[type=module]").src).href;

/** Resolves when the style sheet at `path` is there; rejects, and leaves nothing behind, if it can't be had. */
export function styled(path) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = ownFile(path);
  return new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = () => {
      link.remove();
      reject(new Error(path));
    };
    document.head.append(link);
  });
}
