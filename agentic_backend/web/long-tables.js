/**
 * Long tables: folded to their first rows when they are shown whole, as code is. All rows are in the page once somebody
 * asks for them, and then the columns keep their widths: else each row that comes would have all laid out anew.
 */

import { formatCount } from "./format.js";
import { t } from "./i18n.js";
import { inSteps } from "./in-steps.js";
import { elementsOf } from "./markdown.js";
import { enliven } from "./morphing.js";

/** The other rows of a folded table, by its element; see `rest` of renderBlocks. */
const rests = new WeakMap();

/** Offers the other rows below the first ones. */
export function foldTable(element, rest) {
  rests.set(element, rest);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "unfold-table";
  button.setAttribute("aria-expanded", "false");
  button.textContent = t("Show all {count} rows", { count: formatCount(rest.rows) });
  button.addEventListener("click", () => unfoldTable(element, button));
  element.append(button);
}

function unfoldTable(element, button) {
  button.remove();
  element.focus({ preventScroll: true });
  freezeColumns(element);
  inSteps(element, unfold(element));
}

function* unfold(element) {
  const table = element.querySelector("table");
  for (const html of rests.get(element).parts()) {
    const [others] = elementsOf([html]);
    for (const body of others.querySelectorAll("tbody")) {
      table.append(body);
      enliven(body, true);
    }
    yield;
  }
}

/** How much wider than its first rows need the columns of a table get, where there is room: later cells may be longer. */
const MOST_ROOM = 1.25;

/** Keeps the columns as wide as they are, so that rows don't depend on one another. */
export function freezeColumns(element) {
  const table = element.querySelector("table");
  if (table.matches(".frozen")) return;
  const widthOf = (each) => each.getBoundingClientRect().width;
  const room = Math.min(MOST_ROOM, Math.max(1, element.clientWidth / widthOf(table)));
  const widths = [...table.rows[0].cells].map((cell) => `${widthOf(cell) * room}px`);
  table.style.setProperty("--columns", widths.join(" "));
  table.className = "frozen";
}
