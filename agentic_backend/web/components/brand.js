/** The product's logo and name. */

import { brand } from "../brand.js";
import { html } from "./html.js";

export const Brand = () => html`<span class="brand"><img src=${brand.logo} alt="" width="24" height="24" />${brand.name}</span>`;
