/**
 * The text of code, in which controls of the direction of text are marked: else code could be read in another order
 * than it runs ("Trojan Source"). Each stands in an element of its own, whose style shows its name and keeps it from
 * turning what is beside it; so the text that is copied is the code as it is.
 */

const TURN = /([\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])/;
const TURNS = new RegExp(TURN, "g");

const nameOf = (sign) => `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** HTML of code that is escaped already, with marks. Its line breaks are entities then, as they may stand beside tags. */
export const withMarkedTurns = (html) =>
  TURN.test(html)
    ? html.replaceAll("\n", "&#10;").replace(TURNS, (sign) => `<span class="turn" title="${nameOf(sign)}">${sign}</span>`)
    : html;

/** The nodes of a piece of code, one of text if it turns nowhere. */
export const codeNodes = (text) =>
  TURN.test(text) ? text.split(TURN).filter(Boolean).map(nodeOf) : [document.createTextNode(text)];

function nodeOf(piece) {
  if (!TURN.test(piece)) return document.createTextNode(piece);
  const mark = document.createElement("span");
  mark.className = "turn";
  mark.title = nameOf(piece);
  mark.append(piece);
  return mark;
}
