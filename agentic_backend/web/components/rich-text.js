/**
 * Untrusted Markdown. The renderer is loaded after the first paint; from then on the text is not preact's: what its
 * reader has selected, focused, scrolled or clicked in it stays while it grows.
 */

import { codeClicked } from "../code-blocks.js";
import { showImage } from "../images.js";
import { painted } from "../painted.js";
import { persistently } from "../persistently.js";
import { html, memo, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

const loaded = { GrowingText: null };
const loading = painted
  .then(() => persistently(() => import("../growing-text.js")))
  .then(({ GrowingText }) => (loaded.GrowingText = GrowingText));

export const RichText = memo(({ text, streaming = false, onShown = null }) => {
  const root = useRef(null);
  const shown = useRef(null);
  const [isReady, setReady] = useState(loaded.GrowingText !== null);
  useEffect(() => {
    if (!isReady) loading.then(() => setReady(true));
  }, []);
  useLayoutEffect(() => {
    if (!isReady) return;
    shown.current ??= new loaded.GrowingText(root.current);
    shown.current.show(text, streaming);
    if (!streaming) onShown?.(root.current);
  }, [isReady, text, streaming]);
  return html`<div class=${streaming ? "rich-text streaming" : "rich-text"} ref=${root} onClick=${clicked} />`;
});

/** The buttons and the links to notes are the renderer's own. */
function clicked(event) {
  const target = event.target.closest(".code button, .show-image, .note-link");
  if (!target) return;
  // One that stands in a link doesn't follow it; and the address names the session, not a footnote.
  event.preventDefault();
  if (target.matches(".show-image")) showImage(target);
  else if (target.matches(".note-link")) showNote(target);
  else codeClicked(target);
}

function showNote(link) {
  const note = document.getElementById(link.getAttribute("href").slice(1));
  if (!note) return;
  note.scrollIntoView({ block: "nearest" });
  (note.matches("li") ? note : (note.querySelector("a") ?? note)).focus({ preventScroll: true });
}
