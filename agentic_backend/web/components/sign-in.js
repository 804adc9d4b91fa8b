/** What is shown before somebody is signed in. */

import { t } from "../i18n.js";
import { Brand } from "./brand.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

export function SigningIn() {
  return html`<main class="center">
    <${Brand} />
    <span class="spinner large delayed" role="img" aria-label=${t("Signing in")} />
  </main>`;
}

export function SignInFailed({ reason }) {
  return html`<main class="center">
    <h1>${t("You are not signed in.")}</h1>
    <p class="notice error" role="alert" data-testid="sign-in-failed"><${Icon} name="warning" />${reason}</p>
    <button type="button" class="button" data-testid="try-again" onClick=${() => location.reload()}>
      ${t("Try again")}
    </button>
  </main>`;
}
