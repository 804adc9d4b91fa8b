/**
 * The sources of an answer, numbered: what its model cites, what its author added, and what its tools found.
 *
 * Pure. Of what tools found, only what the answer names is a source of it, as long as it names anything.
 */

import { writtenJson } from "./client/exact-json.js";
import { visible } from "./format.js";
import { textOf } from "./timeline.js";

/** `[1]` or `[1, 2]`, which is no link. */
export const MARK = /\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\](?![[(])/g;

/** The numbers in a mark of a text. */
export const numbersIn = (mark) => mark.split(",").map(Number);

/** `[{number, title?, href?, text?, panel?, panel_data?}]`, by number; `item` is the answer in the exchange's timeline. */
export function sourcesOf({ messages }, { parts, metadata, streaming }) {
  if (streaming) return [];
  const named = new Set([...textOf(parts).matchAll(MARK)].flatMap(([, numbers]) => numbersIn(numbers)));
  const cited = [...(metadata.sources ?? []).map(fromMetadata), ...parts.filter(isCitation).map(fromLink)];
  const found = messages
    .filter(({ role }) => role === "tool")
    .flatMap((message) => message.parts.filter(isCitation).map(fromLink));
  const isNamed = found.some(({ number }) => named.has(number));
  return numbered([...cited, ...found.filter(({ number }) => !isNamed || named.has(number))]);
}

/** The items of a timeline in which tools no longer give what is listed below an answer. */
export function withoutListed(exchange, items) {
  const answers = items.filter(({ kind }) => kind === "final");
  const listed = new Set(answers.flatMap((item) => sourcesOf(exchange, item)).map(keyOf));
  if (!listed.size) return items;
  const isListed = (part) => isCitation(part) && listed.has(keyOf(fromLink(part)));
  return items.map((item) =>
    item.kind === "tool" && item.parts?.some(isListed)
      ? { ...item, parts: item.parts.filter((part) => !isListed(part)) }
      : item,
  );
}

export const isCitation = ({ type, kind }) => type === "link" && kind === "citation";

const seen = (fileName) => fileName && visible(fileName);

const fromMetadata = ({ number, title, name, file_name: fileName, url, href, cited_text: text }) => ({
  number,
  title: title ?? name ?? seen(fileName),
  href: href ?? url,
  text,
});

const fromLink = ({ source_id: id, title, file_name: fileName, href, panel, panel_data: data }) => ({
  number: /^\d{1,3}$/.test(id ?? "") ? Number(id) : undefined,
  title: title || seen(fileName),
  href,
  panel,
  panel_data: data,
});

const keyOf = ({ href, title, panel_data: data }) => writtenJson([href, title, data]);

/** Each source once; one without a number of its own gets the next that is free. */
function numbered(sources) {
  const known = new Map();
  const taken = new Set();
  for (const source of sources) {
    const key = keyOf(source);
    const number = Number.isInteger(source.number) && !taken.has(source.number) ? source.number : undefined;
    if (known.has(key)) continue;
    if (number !== undefined) taken.add(number);
    known.set(key, { ...source, number });
  }
  let next = 1;
  const all = [...known.values()].map((source) => {
    if (source.number !== undefined) return source;
    while (taken.has(next)) next += 1;
    taken.add(next);
    return { ...source, number: next };
  });
  return all.sort((a, b) => a.number - b.number);
}
