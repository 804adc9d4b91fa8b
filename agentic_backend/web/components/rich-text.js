/**
 * Untrusted Markdown. The renderer is loaded after the first paint; from then on the text is not preact's: what its
 * reader has selected, focused, scrolled or clicked in it stays while it grows. While it can't be loaded, the text is
 * shown as it was written.
 */

import { showImage } from "../images.js";
import { painted } from "../painted.js";
import { persistently } from "../persistently.js";
import { html, memo, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

const loaded = { GrowingText: null, codeClicked: null, htmlOf: () => null };
const load = () => import("../growing-text.js");
const first = painted.then(load);
const loading = first.catch(() => persistently(load)).then((renderer) => Object.assign(loaded, renderer));

/** The HTML of a Markdown text, to be copied; null while there is no renderer. */
export const htmlOf = (text) => loaded.htmlOf(text);

export const RichText = memo(({ text, streaming = false, onShown = null }) => {
  const root = useRef(null);
  const shown = useRef(null);
  /** Null until the renderer is there, or could not be loaded for once. */
  const [isReady, setReady] = useState(loaded.GrowingText !== null || null);
  useEffect(() => {
    if (isReady) return;
    first.catch(() => setReady((known) => known ?? false));
    loading.then(() => setReady(true));
  }, []);
  useLayoutEffect(() => {
    if (!isReady) return;
    shown.current ??= new loaded.GrowingText(root.current);
    shown.current.show(text, streaming, onShown);
  }, [isReady, text, streaming]);
  if (isReady === false) return html`<div key="plain" class="rich-text plain" dir="auto">${text}</div>`;
  return html`<div key="rich" class=${streaming ? "rich-text streaming" : "rich-text"} ref=${root} onClick=${clicked} />`;
});

/** The buttons and the links to notes are the renderer's own. */
function clicked(event) {
  const target = event.target.closest(".code button, .show-image, .note-link");
  if (!target) return;
  // One that stands in a link doesn't follow it; and the address names the session, not a footnote.
  event.preventDefault();
  if (target.matches(".show-image")) showImage(target);
  else if (target.matches(".note-link")) showNote(target);
  else loaded.codeClicked(target);
}

function showNote(link) {
  const note = document.getElementById(link.getAttribute("href").slice(1));
  if (!note) return;
  note.scrollIntoView({ block: "nearest" });
  (note.matches("li") ? note : (note.querySelector("a") ?? note)).focus({ preventScroll: true });
}
