/** Untrusted Markdown as HTML. While it streams, only the pieces that changed are put into the page again. */

import { copyText } from "../clipboard.js";
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
async function clicked({ target }) {
  if (target.matches(".copy-code")) {
    await copyText(target.closest(".code").querySelector("code").textContent);
    target.textContent = "Copied";
    setTimeout(() => (target.textContent = "Copy"), COPIED_MS);
  } else if (target.matches(".show-image")) {
    const image = document.createElement("img");
    image.src = target.dataset.src;
    image.alt = target.textContent.replace(/^Show image:? ?/, "");
    target.replaceWith(image);
  }
}
