/** Who is signed in, and the way out. */

import { html } from "./html.js";
import { Icon } from "./icons.js";

export function Account({ user, onSignOut }) {
  return html`<div class="account" data-testid="account">
    <${Icon} name="person" />
    <span class="account-name" title=${user.name}>${user.name}</span>
    <button type="button" class="button" data-testid="sign-out" onClick=${onSignOut}>Sign out</button>
  </div>`;
}
