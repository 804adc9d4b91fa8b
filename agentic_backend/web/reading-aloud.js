/** Reads texts aloud by the browser's own voices: one at a time, and none once the page is left. */

import { languageOf, sentencesOf } from "./spoken-text.js";

const voices = window.speechSynthesis;
let endLast = () => {};

/**
 * Reads the HTML of `text`, from its beginning. `onEnd` is called once, with whether it could not be read. Returns what
 * ends it.
 */
export function readAloud(text, html, onEnd) {
  endLast();
  let isOver = false;
  const over = (hasFailed) => {
    if (isOver) return;
    isOver = true;
    voices.cancel();
    onEnd(hasFailed);
  };
  endLast = () => over(false);
  const lang = languageOf(text);
  const said = sentencesOf(html, lang).map((sentence) => Object.assign(new SpeechSynthesisUtterance(sentence), { lang }));
  for (const utterance of said) utterance.onerror = () => over(true);
  if (said.length) said.at(-1).onend = () => over(false);
  else over(false);
  for (const utterance of said) voices.speak(utterance);
  return endLast;
}

addEventListener("pagehide", () => endLast());
