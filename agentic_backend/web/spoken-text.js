/** What is read aloud of an answer, and in which language. Pure, but for the browser's parser of HTML. */

import { language, t } from "./i18n.js";

/** Some browsers stop in the middle of what takes a voice longer than a few breaths. */
const LONGEST = 200;
const BLOCKS = "p, li, h1, h2, h3, h4, h5, h6, tr, td, th, blockquote, summary, dt, dd, br";

/** The sentences of an answer's HTML, none longer than a voice can say at once; code is named, not read. */
export function sentencesOf(html, spoken) {
  const { body } = new DOMParser().parseFromString(html, "text/html");
  for (const code of body.querySelectorAll("pre")) code.replaceWith(`\n${t("Code.")}\n`);
  for (const block of body.querySelectorAll(BLOCKS)) block.after("\n");
  const segmenter = new Intl.Segmenter(spoken, { granularity: "sentence" });
  const lines = body.textContent.split("\n").map((line) => line.trim());
  return lines.filter(Boolean).flatMap((line) => Array.from(segmenter.segment(line), ({ segment }) => segment).flatMap(cut));
}

function cut(sentence) {
  const pieces = [];
  let rest = sentence.trim();
  while (rest.length > LONGEST) {
    const space = rest.lastIndexOf(" ", LONGEST);
    const end = space > 0 ? space : LONGEST;
    pieces.push(rest.slice(0, end));
    rest = rest.slice(end).trim();
  }
  return rest ? [...pieces, rest] : pieces;
}

const SCRIPTS = [
  ["ja", /[\u3040-\u30ff]/g],
  ["ko", /[\uac00-\ud7af]/g],
  ["zh", /[\u4e00-\u9fff]/g],
  ["ru", /[\u0400-\u04ff]/g],
  ["el", /[\u0370-\u03ff]/g],
  ["he", /[\u0590-\u05ff]/g],
  ["ar", /[\u0600-\u06ff]/g],
  ["hi", /[\u0900-\u097f]/g],
  ["th", /[\u0e00-\u0e7f]/g],
];
/** Words that hardly a sentence of the language is without, and the others seldom have. */
const WORDS = {
  en: "the and of is that with you are this for not have",
  de: "der die das und ist nicht mit ein eine zu auf sie",
  fr: "le les des est une dans pour vous que pas sur avec",
  es: "el los las una que por para con está usted muy pero",
  it: "il gli della che non una per con sono questo più anche",
  pt: "os uma que não para com você são mais por isso também",
  nl: "het een van is niet dat met voor je zijn naar ook",
};
const LOOKED_AT = 2_000;
/** By so much the language of most words has to lead. */
const LEAD = 2;

/** The language that a text seems to be in, as in BCP 47; the page's where that can't be told. */
export function languageOf(text) {
  const start = text.slice(0, LOOKED_AT);
  const letters = start.match(/\p{L}/gu)?.length ?? 0;
  const script = SCRIPTS.find(([, pattern]) => (start.match(pattern)?.length ?? 0) * 5 > letters);
  if (script) return script[0];
  const said = start.toLowerCase().match(/\p{L}+/gu) ?? [];
  const counts = Object.entries(WORDS).map(([name, words]) => {
    const own = new Set(words.split(" "));
    return [name, said.filter((word) => own.has(word)).length];
  });
  const [[first, most], [, next]] = counts.sort(([, one], [, other]) => other - one);
  return most >= next + LEAD ? first : language;
}
