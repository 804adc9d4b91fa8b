/** Turns from one variant of a question, or of its answer, to the others: ‹ 2/3 ›. */

import { t } from "../i18n.js";
import { html, useLayoutEffect, useRef } from "./html.js";
import { Icon } from "./icons.js";

/** `name` says of what; `turned` is "previous" or "next" where the user has just turned to this variant by that button. */
export function VariantSwitch({ index, ids, name, turned, onTurn }) {
  const buttons = { previous: useRef(null), next: useRef(null) };
  const count = ids.length;
  // The button that was pressed went away with the other variant: its successor's name says which one is shown.
  useLayoutEffect(() => {
    if (turned) buttons[turned].current.focus();
  }, [turned]);
  const place = t("Variant {number} of {count}", { number: index + 1, count });
  const turn = (way, step) => {
    if (ids[index + step]) onTurn(ids[index + step], way);
  };
  const pressed = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const way = { ArrowLeft: "previous", ArrowRight: "next" }[event.key];
    if (!way) return;
    event.preventDefault();
    // In right-to-left languages the previous one is on the right.
    const towards = document.documentElement.dir === "rtl" ? (way === "next" ? "previous" : "next") : way;
    turn(towards, towards === "next" ? 1 : -1);
  };
  return html`<div
    class="variants"
    role="group"
    aria-label=${name}
    data-testid="variants"
    onKeyDown=${pressed}
  >
    <${Turn}
      reference=${buttons.previous}
      way="previous"
      label=${`${t("Previous variant")}, ${place}`}
      isOff=${index === 0}
      onClick=${() => turn("previous", -1)}
    />
    <span aria-hidden="true" data-testid="variant-place">${index + 1}/${count}</span>
    <${Turn}
      reference=${buttons.next}
      way="next"
      label=${`${t("Next variant")}, ${place}`}
      isOff=${index === count - 1}
      onClick=${() => turn("next", 1)}
    />
  </div>`;
}

function Turn({ reference, way, label, isOff, onClick }) {
  return html`<button
    ref=${reference}
    type="button"
    class=${`icon-button turn ${way}`}
    data-testid=${`${way}-variant`}
    aria-label=${label}
    aria-disabled=${isOff ? "true" : undefined}
    title=${label}
    onClick=${onClick}
  >
    <${Icon} name="chevron" />
  </button>`;
}
