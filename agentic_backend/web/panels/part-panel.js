/** A custom part in the panel that its application has for its kind. */

import { html } from "../components/html.js";
import { RichText } from "../components/rich-text.js";
import { PanelView } from "./panel-view.js";

/** Until the panel is there, and where it can't be, the part's words are shown. */
export function PartPanel({ part, panels, panel }) {
  return html`<div class="panel-part">
    <${PanelView} key=${panel.key} panel=${panel} panels=${panels} part=${part}><${RichText} text=${part.text} /><//>
  </div>`;
}
