/** The panel that is open at a place of the page, under its title. */

import { html } from "../components/html.js";
import { IconButton } from "../components/icons.js";
import { t } from "../i18n.js";
import { PanelView } from "./panel-view.js";

export function PlacedPanel({ place, shown: { list, open, panels }, sessionId }) {
  const panel = list.find(({ key }) => key === open[place]);
  const close = () => {
    panels.close(place);
    document.querySelector("[data-testid=panel-menu]")?.focus();
  };
  return html`<section class=${`panel panel-${place}`} aria-label=${panel.title} data-testid=${`panel-${place}`}>
    <header class="panel-head">
      <h2>${panel.title}</h2>
      <${IconButton} name="close" label=${t("Close")} data-testid="close-panel" onClick=${close} />
    </header>
    <${PanelView} key=${panel.key} panel=${panel} panels=${panels} sessionId=${sessionId} />
  </section>`;
}
