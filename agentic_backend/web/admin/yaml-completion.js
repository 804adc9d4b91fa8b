/**
 * What may be written at a place of a catalog entry, by its JSON Schema.
 *
 * The place is found by indentation, line by line, and not by a parser of YAML: what is being typed seldom is YAML yet.
 */

const LINE = /^(?<before>\s*(?:- +)*)(?:(?<key>[\w$-]+)\s*:(?=\s|$)\s*(?<value>.*))?/;
const BLOCK_SCALAR = /^[|>][-+\d]*\s*(#.*)?$/;

/**
 * What completes the text at the offset `position`: `{from, options[{label, type, detail, info, apply?}]}`, or null.
 * `schema` is that of an entry, or of a catalog.
 */
export function completionsAt(text, position, schema) {
  const begin = text.lastIndexOf("\n", position - 1) + 1;
  const typed = text.slice(begin, position);
  const above = placesOf(text.slice(0, begin));
  if (above.isInText(typed)) return null;
  const asKey = /^(\s*(?:- +)*)([\w$-]*)$/.exec(typed);
  const asValue = /^(\s*(?:- +)*)([\w$-]+)\s*:\s+(?:\[(?:[^\]]*,)?\s*)?([^\s[\],]*)$/.exec(typed);
  const root = entrySchema(schema);
  if (asValue) return values(above, asValue, root, position);
  return asKey && keys({ above, asKey, root, position, below: text.slice(position) });
}

function keys({ above, asKey: [, before, word], root, position, below }) {
  above.dashes(before);
  above.leave(before.length, false);
  const nodes = above.nodes(root);
  const parent = above.top;
  const from = position - word.length;
  const scalars = nodes.flatMap((node) => valuesOf(node, root)).map(({ label, ...rest }) => ({ label, ...rest }));
  const properties = Object.assign({}, ...nodes.toReversed().map(({ properties = {} }) => properties));
  above.read(below.slice(below.indexOf("\n") + 1 || below.length));
  const options = Object.entries(properties)
    .filter(([name]) => !parent.names.has(name))
    .map(([name, node]) => property(name, node, root, before.length));
  return options.length || scalars.length ? { from, options: [...options, ...scalars] } : null;
}

function values(above, [, before, key, word], root, position) {
  above.dashes(before);
  above.enter(key, before.length);
  const nodes = above.nodes(root).flatMap((node) => [node, ...variants(node.items, root)]);
  const options = nodes.flatMap((node) => valuesOf(node, root));
  return options.length ? { from: position - word.length, options } : null;
}

function property(name, node, root, column) {
  const forms = variants(node, root);
  const types = [...new Set(forms.flatMap(({ type }) => type ?? []))];
  const indent = "\n".padEnd(column + 3);
  const isMapping = types.includes("object") && forms.every(({ type, enum: values }) => type !== "string" && !values);
  const apply = isMapping ? `${name}:${indent}` : `${name}: `;
  const info = node.description ?? forms.find(({ description }) => description)?.description;
  return { label: name, type: "property", detail: types.filter((type) => type !== "null").join(" | "), info, apply };
}

function valuesOf(node, root) {
  const { description: info } = node;
  const given = [...(node.enum ?? []), ...("const" in node ? [node.const] : []), ...(node.examples ?? [])];
  const all = node.type === "boolean" ? [true, false] : given;
  return all
    .filter((value) => value !== null && typeof value !== "object")
    .map((value) => ({ label: String(value), type: "enum", info, detail: value === node.default ? "default" : undefined }));
}

/** The schema of one entry, with the definitions of the whole. */
function entrySchema(schema) {
  const root = { $defs: schema.$defs ?? {} };
  const items = schema.properties?.agents?.items;
  return { ...root, entry: items ?? schema };
}

/** The schemas that the value may have, without references. */
function variants(node, root, depth = 0) {
  if (!node || typeof node !== "object" || depth > 8) return [];
  const { $ref, anyOf, oneOf, allOf, ...own } = node;
  const referred = $ref ? variants(root.$defs[$ref.split("/").at(-1)], root, depth + 1) : [];
  const others = [anyOf, oneOf, allOf].flatMap((each) => each ?? []).flatMap((each) => variants(each, root, depth + 1));
  return [own, ...referred, ...others];
}

const placesOf = (text) => {
  const places = new Places();
  places.read(text);
  return places;
};

/** The keys and list items that are open at a place, by their columns. */
class Places {
  /** Each is `{name, column, names}`, `name` being null for a list item; `names` are the keys below it. */
  #open = [];
  #root = { names: new Set() };
  /** The column of the key whose block of text goes on, or null. */
  #text = null;

  get top() {
    return this.#open.at(-1) ?? this.#root;
  }

  read(text) {
    for (const line of text.split("\n")) {
      const bare = line.trim();
      if (!bare || bare.startsWith("#") || this.isInText(line)) continue;
      const { before, key, value } = LINE.exec(line).groups;
      this.dashes(before);
      if (key === undefined) continue;
      this.enter(key, before.length);
      if (BLOCK_SCALAR.test(value)) this.#text = before.length;
    }
  }

  /** Whether a line belongs to a block of text above it. */
  isInText(line) {
    if (this.#text === null) return false;
    const column = line.length - line.trimStart().length;
    if (column > this.#text || !line.trim()) return column > this.#text;
    this.#text = null;
    return false;
  }

  dashes(before) {
    for (const { index } of before.matchAll(/-/g)) {
      this.leave(index, true);
      this.#open.push({ name: null, column: index, names: new Set() });
    }
  }

  enter(name, column) {
    this.leave(column, false);
    this.top.names.add(name);
    this.#open.push({ name, column, names: new Set() });
  }

  /** Leaves what doesn't contain a key, or the dash of a list, at this column. */
  leave(column, isDash) {
    const contains = (each) => each.column < column || (each.column === column && isDash && each.name !== null);
    while (this.#open.length && !contains(this.#open.at(-1))) this.#open.pop();
  }

  /** The schemas of what is open. */
  nodes(root) {
    let nodes = variants(root.entry, root);
    for (const { name } of this.#open) {
      const within = nodes.flatMap((node) =>
        name === null ? node.items : (node.properties?.[name] ?? node.additionalProperties),
      );
      nodes = within.flatMap((node) => variants(node, root));
    }
    return nodes;
  }
}
