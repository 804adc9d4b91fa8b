/** A button that opens a menu: arrow keys, Home, End and first letters move in it, Escape and Tab leave it. */

import { html } from "./html.js";
import { Icon } from "./icons.js";
import { usePopover } from "./popover.js";

/**
 * `items` are `{label, onSelect, icon?, hint?, title?, checked?, disabled?, danger?, testId?}` or `{separator: true}`; what is
 * falsy among them is left out. With `checked` an item is a choice among those of its menu. `children` are shown in the
 * button in place of the icon; `class`, `tabindex` and `align` are the button's and the panel's, see usePopover.
 */
export function Menu({ label, items, icon = "more", testId, tabindex, class: name = "icon-button", align = "end", children }) {
  const popover = usePopover({ align, onShown: (panel) => entries(panel)[0]?.focus() });
  const keyed = (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    popover.open();
  };
  return html`<button
      type="button"
      class=${name}
      tabindex=${tabindex}
      aria-haspopup="menu"
      aria-label=${children ? undefined : label}
      title=${label}
      data-testid=${testId}
      onKeyDown=${keyed}
      ...${popover.button}
    >
      ${children ?? html`<${Icon} name=${icon} />`}
    </button>
    ${popover.isOpen && html`<${Panel} label=${label} items=${items.filter(Boolean)} popover=${popover} />`}`;
}

function Panel({ label, items, popover }) {
  const { panel, close } = popover;
  const keyed = (event) => {
    const all = entries(panel.ref.current);
    const next = event.key === "Tab" ? null : target(event, all, all.indexOf(document.activeElement));
    if (event.key === "Tab") close();
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    next.focus();
  };
  const selected = (item) => {
    // The focus is back at the button before the item moves it on.
    close();
    item.onSelect();
  };
  return html`<div class="menu" role="menu" aria-label=${label} onKeyDown=${keyed} ...${panel}>
    ${items.map((item, index) =>
      item.separator
        ? html`<hr key=${index} />`
        : html`<${Item} key=${index} item=${item} onSelect=${() => selected(item)} />`,
    )}
  </div>`;
}

function Item({ item: { label, icon, hint, title, checked, disabled, danger, testId }, onSelect }) {
  const isChoice = checked !== undefined;
  return html`<button
    type="button"
    class=${danger ? "menu-item danger" : "menu-item"}
    role=${isChoice ? "menuitemradio" : "menuitem"}
    aria-checked=${isChoice ? String(checked) : undefined}
    aria-disabled=${disabled ? "true" : undefined}
    title=${title}
    tabindex="-1"
    data-testid=${testId}
    onClick=${disabled ? undefined : onSelect}
  >
    ${isChoice ? html`<${Icon} name=${checked ? "check" : "blank"} />` : icon && html`<${Icon} name=${icon} />`}
    <span class="menu-label">${label}</span>
    ${hint && html`<span class="menu-hint">${hint}</span>`}
  </button>`;
}

const entries = (panel) => [...panel.querySelectorAll(".menu-item")];

/** The item that a key leads to from the one at `index`, or nothing. */
function target({ key, ctrlKey, metaKey, altKey }, items, index) {
  switch (key) {
    case "ArrowDown":
      return items[(index + 1) % items.length];
    case "ArrowUp":
      return items.at(index <= 0 ? -1 : index - 1);
    case "Home":
      return items[0];
    case "End":
      return items.at(-1);
  }
  if (key.length !== 1 || key === " " || ctrlKey || metaKey || altKey) return undefined;
  const fromNext = [...items.slice(index + 1), ...items.slice(0, index + 1)];
  return fromNext.find((item) => item.textContent.trim().toLowerCase().startsWith(key.toLowerCase()));
}
