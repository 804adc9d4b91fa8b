/**
 * The tables of what is pasted, as Markdown. Pure.
 *
 * Spreadsheets, word processors and browsers give a table twice: as HTML, and as text in which its cells are hard to
 * tell apart. Only tables are taken from the HTML; all else is pasted as the text that it is.
 */

/** A larger one stays text: nobody would read it as a table. */
const MOST_CELLS = 20_000;
/** Text that has tables in Markdown already, as what is copied from an answer. */
const MARKDOWN_TABLE = /^ *\|? *:?-{3,}:? *\|/m;
const LINE = "\u2028";

/** `text` with the tables of `html`, which says the same, as Markdown. */
export function withTables(text, html) {
  if (MARKDOWN_TABLE.test(text)) return text;
  const { body } = new DOMParser().parseFromString(withoutStyles(html), "text/html");
  // What only lays out a page has tables inside.
  const tables = [...body.querySelectorAll("table:not(:has(table))")];
  const { letters, places } = compact(text);
  const pieces = [];
  let [from, at] = [0, 0];
  for (const table of tables) {
    const grid = gridOf(table);
    const own = compact(table.textContent).letters;
    const found = grid && own ? letters.indexOf(own, at) : -1;
    if (found < 0) continue;
    at = found + own.length;
    pieces.push(text.slice(from, places[found]).trimEnd(), markdownOf(grid));
    from = places[at - 1] + 1;
  }
  if (!pieces.length) return text;
  return [...pieces, text.slice(from).replace(/^["\s]+/, "").trimEnd()].filter(Boolean).join("\n\n");
}

/** The content security policy forbids styles also where nothing is shown, and a browser would report each. */
const withoutStyles = (html) =>
  html.replace(/(<\/?)style\b/gi, "$1template").replace(/<[^>]*/g, (tag) => tag.replace(/\bstyle\s*=/gi, "data-style="));

/** What of a text is neither space nor a quotation mark, which spreadsheets put around some cells; and where it stands. */
function compact(text) {
  const found = [...text.matchAll(/[^\s"]/g)];
  return { letters: found.map(([letter]) => letter).join(""), places: found.map(({ index }) => index) };
}

/** The texts of the table's cells, row by row; null where it is no table, or better left as text. */
function gridOf(table) {
  const rows = [...table.rows];
  const grid = rows.map(() => []);
  let count = 0;
  for (const [top, row] of rows.entries()) {
    for (const cell of row.cells) {
      let left = 0;
      // A cell from above may reach down to here.
      while (grid[top][left] !== undefined) left += 1;
      for (let y = top; y < Math.min(top + Math.max(cell.rowSpan, 1), rows.length); y += 1) {
        for (let x = left; x < left + cell.colSpan; x += 1) {
          grid[y][x] = "";
          if ((count += 1) > MOST_CELLS) return null;
        }
      }
      grid[top][left] = textOf(cell);
    }
  }
  const width = Math.max(...grid.map((line) => line.length));
  return grid.length > 1 && width > 1 ? grid.map((line) => Array.from({ length: width }, (_, x) => line[x] ?? "")) : null;
}

/** In one line, as a cell of Markdown has to be. */
function textOf(cell) {
  for (const block of cell.querySelectorAll("br, p, div, li")) block.after(LINE);
  const lines = cell.textContent.split(LINE).map((line) => line.replace(/\s+/g, " ").trim());
  return lines.filter(Boolean).join("<br>").replaceAll("|", "\\|");
}

function markdownOf([head, ...rows]) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
