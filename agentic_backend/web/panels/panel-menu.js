/** Opens and closes the panels that have a place of their own. */

import { html, useEffect, useState } from "../components/html.js";
import { Menu } from "../components/menu.js";
import { t } from "../i18n.js";
import { styled } from "../own-files.js";

/** The styles of panels, which a page without them never loads; panels are usable without. */
let styles = null;
const haveStyles = () => (styles ??= styled("styles/panels.css").catch(() => {}));

export function PanelMenu({ shown: { list, open, panels } }) {
  const [isStyled, setStyled] = useState(false);
  useEffect(() => {
    haveStyles().then(() => setStyled(true));
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
