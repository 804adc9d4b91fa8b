/** Untrusted Markdown as HTML. While it streams, only the pieces that changed are put into the page again. */

import { copyText } from "../clipboard.js";
import { unnamedImage } from "../images.js";
import { renderPieces, steady } from "../markdown.js";
import { html, memo, useMemo, useRef } from "./html.js";

const COPIED_MS = 1_500;

export const RichText = memo(({ text, streaming = false }) => {
  const previous = useRef([]);
  const pieces = useMemo(() => renderPieces(streaming ? steady(text) : text, previous.current), [text, streaming]);
  previous.current = pieces;
  return html`<div class=${streaming ? "rich-text streaming" : "rich-text"} onClick=${clicked}>
    ${pieces.map((piece, index) => html`<${Piece} key=${index} safe=${piece.safe} />`)}
  </div>`;
});

const Piece = memo(({ safe }) => html`<div class="piece" dangerouslySetInnerHTML=${{ __html: safe }} />`);

/** The buttons inside the HTML are the renderer's own: see markdown.js. */
async function clicked(event) {
  const button = event.target.closest(".copy-code, .show-image");
  if (!button) return;
  // One that stands in a link doesn't follow it.
  event.preventDefault();
  if (button.matches(".show-image")) {
    showImage(button);
    return;
  }
  await copyText(button.closest(".code").querySelector("code").textContent);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
}

/** Loads the image in the place of its button; the focus goes with it, so that it is read aloud. */
function showImage(button) {
  const image = document.createElement("img");
  image.referrerPolicy = "no-referrer";
  image.alt =
    button.querySelector(".image-alt")?.textContent ?? unnamedImage(button.querySelector(".image-host").textContent);
  image.tabIndex = -1;
  image.src = button.dataset.src;
  button.replaceWith(image);
  image.focus({ preventScroll: true });
}
