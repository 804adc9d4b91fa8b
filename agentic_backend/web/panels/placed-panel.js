/** The panel that is open at a place of the page, under its title. */

import { html, useEffect, useRef } from "../components/html.js";
import { IconButton } from "../components/icons.js";
import { t } from "../i18n.js";
import { PanelView } from "./panel-view.js";

/** Where the page has no room for more than the panel beside the conversation; as in panels.css. */
const narrow = matchMedia("(max-width: 60rem)");

/** `opening` is another number for each conversation that is opened. */
export function PlacedPanel({ place, shown: { list, open, link, panels }, sessionId, opening = null }) {
  const section = useRef(null);
  const before = useRef(opening);
  const panel = list.find(({ key }) => key === open[place]);
  const opened = link?.key === panel.key ? link : null;
  const endAlone = useRef(() => {});
  const close = () => {
    endAlone.current();
    panels.close(place);
    const { from } = opened ?? {};
    (from?.isConnected ? from : document.querySelector("[data-testid=panel-menu]"))?.focus();
  };
  const keyed = (event) => {
    const isAlone = place === "beside" && narrow.matches && !section.current.querySelector("dialog[open]");
    if (event.key !== "Escape" || !isAlone) return;
    event.preventDefault();
    close();
  };
  useEffect(() => section.current.querySelector("button").focus(), [panel.key]);
  useEffect(() => {
    if (place === "beside") endAlone.current = aloneWhereNarrow(section.current);
    return () => endAlone.current();
  }, []);
  useEffect(() => {
    // Who opens a conversation wants to see it.
    if (before.current !== opening) panels.close(place);
  }, [opening]);
  return html`<section
    ref=${section}
    class=${`panel panel-${place}`}
    aria-label=${panel.title}
    data-testid=${`panel-${place}`}
    onKeyDown=${keyed}
  >
    <header class="panel-head">
      <h2>${panel.title}</h2>
      <${IconButton} name="close" label=${t("Close")} data-testid="close-panel" onClick=${close} />
    </header>
    <${PanelView} key=${panel.key} panel=${panel} panels=${panels} link=${opened} sessionId=${sessionId} />
  </section>`;
}

/** What the panel covers can't be reached by keyboard either. Returns what ends that. */
function aloneWhereNarrow(section) {
  const others = [...section.parentElement.children].filter((each) => each !== section && !each.matches("dialog"));
  const look = () => others.forEach((each) => (each.inert = narrow.matches));
  look();
  narrow.addEventListener("change", look);
  return () => {
    narrow.removeEventListener("change", look);
    for (const each of others) each.inert = false;
  };
}
