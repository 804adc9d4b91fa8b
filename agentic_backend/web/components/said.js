/** What an agent says between its steps. */

import { html } from "./html.js";
import { Parts } from "./parts.js";

export function Said({ item }) {
  return html`<div class="observation" data-testid="observation"><${Parts} parts=${item.parts} /></div>`;
}
