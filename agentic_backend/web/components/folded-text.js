/** A text as it was written, of which a long one shows its beginning until its reader wants it all. */

import { formatCount } from "../format.js";
import { t } from "../i18n.js";
import { html, useState } from "./html.js";

const MOST_LINES = 40;
const MOST_CHARACTERS = 6_000;
const FOLDED_LINES = 12;
const FOLDED_CHARACTERS = 1_500;

export function FoldedText({ text }) {
  const [unfolded, setUnfolded] = useState(false);
  const lines = text.split("\n");
  if (lines.length <= MOST_LINES && text.length <= MOST_CHARACTERS) return html`<p dir="auto">${text}</p>`;
  // What is folded isn't in the page at all: thousands of lines would be laid out to be hidden.
  const shown = unfolded ? text : `${lines.slice(0, FOLDED_LINES).join("\n").slice(0, FOLDED_CHARACTERS).trimEnd()}…`;
  return html`<p dir="auto">${shown}</p>
    <button
      type="button"
      class="unfold"
      aria-expanded=${String(unfolded)}
      data-testid="unfold"
      onClick=${() => setUnfolded(!unfolded)}
    >
      ${unfolded ? t("Show less") : offer(lines.length)}
    </button>`;
}

const offer = (lines) =>
  lines > MOST_LINES ? t("Show all {count} lines", { count: formatCount(lines) }) : t("Show all of it");
