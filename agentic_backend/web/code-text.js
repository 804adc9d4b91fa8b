/**
 * The text of code, in which bidi controls are marked: else code could be read in another order
 * than it runs ("Trojan Source"). Each stands in an element of its own, whose style shows its name and keeps it from
 * turning what is beside it; so the text that is copied is the code as it is.
 */

const BIDI = /([\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])/;
const ALL_BIDI = new RegExp(BIDI, "g");

const nameOf = (sign) => `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** HTML of code that is escaped already, with marks. Its line breaks are entities then, as they may stand beside tags. */
export const withMarkedBidi = (html) =>
  BIDI.test(html)
    ? html.replaceAll("\n", "&#10;").replace(ALL_BIDI, (sign) => `<span class="bidi" title="${nameOf(sign)}">${sign}</span>`)
    : html;

/** The nodes of a piece of code; one of text where it has no bidi controls. */
export const codeNodes = (text) =>
  BIDI.test(text) ? text.split(BIDI).filter(Boolean).map(nodeOf) : [document.createTextNode(text)];

function nodeOf(piece) {
  if (!BIDI.test(piece)) return document.createTextNode(piece);
  const mark = document.createElement("span");
  mark.className = "bidi";
  mark.title = nameOf(piece);
  mark.append(piece);
  return mark;
}
