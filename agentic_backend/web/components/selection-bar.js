/** What can be done with several selected conversations at once. */

import { plural, t } from "../i18n.js";
import { html, useEffect, useRef } from "./html.js";
import { Icon } from "./icons.js";

export function SelectionBar({ selected, archive, actions, onDone }) {
  const cancel = useRef(null);
  useEffect(() => cancel.current.focus(), []);
  const isNone = selected.size === 0;
  const act = (work) => () => {
    if (isNone) return;
    work([...selected]);
    onDone();
  };
  return html`<div class="selection-bar" role="group" aria-label=${t("Select several")} data-testid="selection-bar">
    <span>${plural(selected.size, "{count} selected", "{count} selected")}</span>
    <button
      type="button"
      class="icon-button"
      ref=${cancel}
      aria-label=${t("Cancel")}
      title=${t("Cancel")}
      data-testid="end-selecting"
      onClick=${onDone}
    >
      <${Icon} name="close" />
    </button>
    <button
      type="button"
      class="button"
      aria-disabled=${String(isNone)}
      data-testid="archive-selected"
      onClick=${act((ids) => actions.entries.archive(ids, !archive))}
    >
      <${Icon} name="archive" />${archive ? t("Take out") : t("Archive")}
    </button>
    <button
      type="button"
      class="button danger"
      aria-disabled=${String(isNone)}
      data-testid="delete-selected"
      onClick=${act((ids) => actions.entries.remove(ids))}
    >
      <${Icon} name="trash" />${t("Delete")}
    </button>
  </div>`;
}
