/**
 * Where the nodes and edges of a graph stand in its drawing: layer by layer from top to bottom, as Sugiyama, Tagawa and
 * Toda have described it (1981). Edges that go back are turned for it, long ones go through a place in each layer.
 */

const ROW = 84;
const HEIGHT = 44;
const GAP = 26;
const PER_LETTER = 7.6;
const PADDING = 28;
/** Below the name there is room for a note. */
const LEAST_WIDTH = 112;
const BEND = 6;
const ASIDE = 13;
const SWEEPS = 6;
/** Of a name, which is longer than what is shown of it. */
export const LONGEST_NAME = 26;

/**
 * `nodes` are `{id, name}`, `edges` `{source, target}`. Returns `{width, height, nodes, edges}`: nodes with the
 * middle `x`, `y` and `width`, `height`; edges with `points`, from source to target.
 */
export function layout({ nodes, edges }) {
  const drawn = new Map(nodes.map((node) => [node.id, { ...node, width: widthOf(node.name), height: HEIGHT }]));
  const known = edges.filter(({ source, target }) => drawn.has(source) && drawn.has(target) && source !== target);
  const down = downwards([...drawn.keys()], known);
  const layers = layered([...drawn.keys()], down);
  const { rows, chains } = withPlaces(drawn, down, layers);
  sweep(rows, chains);
  const width = place(rows);
  const height = rows.length * ROW;
  const both = new Set(known.map(({ source, target }) => `${source}\n${target}`));
  const lines = chains.map(({ edge, turned, places }) => {
    const through = turned ? places.toReversed() : places;
    const meets = both.has(`${edge.target}\n${edge.source}`);
    return { ...edge, points: line(through, meets ? (turned ? ASIDE : -ASIDE) : 0) };
  });
  return { width, height, nodes: [...drawn.values()], edges: lines };
}

const widthOf = (name) => Math.max(Math.min(name.length, LONGEST_NAME) * PER_LETTER + PADDING, LEAST_WIDTH);

/** The edges as `{edge, from, to, turned}`, without a circle. */
function downwards(ids, edges) {
  const following = Map.groupBy(edges, ({ source }) => source);
  const state = new Map();
  const made = [];
  const visit = (first) => {
    const stack = [[first, (following.get(first) ?? []).values()]];
    state.set(first, "open");
    while (stack.length) {
      const [id, rest] = stack.at(-1);
      const { value: edge, done } = rest.next();
      if (done) {
        state.set(id, "left");
        stack.pop();
        continue;
      }
      const turned = state.get(edge.target) === "open";
      made.push({ edge, turned, from: turned ? edge.target : id, to: turned ? id : edge.target });
      if (!state.has(edge.target)) {
        state.set(edge.target, "open");
        stack.push([edge.target, (following.get(edge.target) ?? []).values()]);
      }
    }
  };
  for (const id of ids) if (!state.has(id)) visit(id);
  return made;
}

/** The layer of each node: below all that lead to it. */
function layered(ids, down) {
  const layers = new Map(ids.map((id) => [id, 0]));
  const before = new Map(ids.map((id) => [id, 0]));
  for (const { to } of down) before.set(to, before.get(to) + 1);
  const leaving = Map.groupBy(down, ({ from }) => from);
  const free = ids.filter((id) => before.get(id) === 0);
  for (const id of free) {
    for (const { to } of leaving.get(id) ?? []) {
      layers.set(to, Math.max(layers.get(to), layers.get(id) + 1));
      before.set(to, before.get(to) - 1);
      if (before.get(to) === 0) free.push(to);
    }
  }
  return layers;
}

/** The rows of what stands in each layer, and each edge with the places that it goes through. */
function withPlaces(drawn, down, layers) {
  const rows = Array.from({ length: Math.max(0, ...layers.values()) + 1 }, () => []);
  for (const node of drawn.values()) rows[layers.get(node.id)].push(node);
  const chains = down.map(({ edge, turned, from, to }) => {
    const places = [drawn.get(from)];
    for (let row = layers.get(from) + 1; row < layers.get(to); row += 1) {
      const bend = { width: BEND, height: 0 };
      rows[row].push(bend);
      places.push(bend);
    }
    return { edge, turned, places: [...places, drawn.get(to)] };
  });
  return { rows, chains };
}

/** Puts what is joined below each other, so that few edges cross. */
function sweep(rows, chains) {
  const above = new Map();
  const below = new Map();
  const note = (map, key, value) => map.set(key, [...(map.get(key) ?? []), value]);
  for (const { places } of chains) {
    for (let index = 1; index < places.length; index += 1) {
      note(above, places[index], places[index - 1]);
      note(below, places[index - 1], places[index]);
    }
  }
  const number = (row) => row.forEach((one, index) => (one.order = index));
  rows.forEach(number);
  for (let turn = 0; turn < SWEEPS; turn += 1) {
    const isDown = turn % 2 === 0;
    for (const row of isDown ? rows : rows.toReversed()) {
      const joined = isDown ? above : below;
      const middle = (one) => {
        const others = joined.get(one);
        return others ? others.reduce((sum, { order }) => sum + order, 0) / others.length : one.order;
      };
      const middles = new Map(row.map((one) => [one, middle(one)]));
      row.sort((one, other) => middles.get(one) - middles.get(other));
      number(row);
    }
  }
}

/** Gives all of them their middle; returns the width of the whole. */
function place(rows) {
  const widths = rows.map((row) => row.reduce((sum, { width }) => sum + width + GAP, 0));
  const whole = Math.max(...widths, 0);
  rows.forEach((row, index) => {
    let x = (whole - widths[index]) / 2;
    for (const one of row) {
      one.x = x + (one.width + GAP) / 2;
      one.y = index * ROW + ROW / 2;
      x += one.width + GAP;
    }
  });
  return whole;
}

/** `aside` keeps two edges between the same nodes apart. */
function line(places, aside) {
  const goesDown = places[0].y < places.at(-1).y ? 1 : -1;
  const last = places.length - 1;
  return places.map(({ x, y, height }, index) => {
    const edge = index === 0 ? height / 2 : index === last ? -height / 2 : 0;
    return [x + aside, y + goesDown * edge];
  });
}
