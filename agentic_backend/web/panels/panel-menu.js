/** Opens and closes the panels that have a place of their own. */

import { html, useEffect, useState } from "../components/html.js";
import { Menu } from "../components/menu.js";
import { t } from "../i18n.js";

export function PanelMenu({ shown: { list, open, panels } }) {
  const [isStyled, setStyled] = useState(false);
  useEffect(() => {
    panels.styled().then(() => setStyled(true));
  }, []);
  const placed = list.filter(({ place }) => place !== "part");
  if (!placed.length || !isStyled) return null;
  const items = placed.map((panel) => ({
    label: panel.title,
    title: panel.application,
    checked: open[panel.place] === panel.key,
    testId: "panel",
    onSelect: () => panels.toggle(panel),
  }));
  return html`<${Menu} label=${t("Panels")} icon="panels" testId="panel-menu" items=${items} />`;
}
