/** The numbered sources below an answer, as links that open where they lead somewhere. */

import { visibleProse } from "../format.js";
import { t } from "../i18n.js";
import { safeHref, withHonestHosts } from "../links.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

/**
 * `idOf` names the element of a number, so that marks in the answer lead to it; `isOpened` says whether a source is one
 * that opens in a panel, by the handlers of whoever shows the list.
 */
export function Sources({ sources, idOf, isOpened = () => false }) {
  if (!sources.length) return null;
  return html`<section class="sources" aria-label=${t("Sources")} data-testid="sources">
    <h3>${t("Sources")}</h3>
    <ol>
      ${sources.map(
        (source) => html`<li key=${source.number} id=${idOf(source.number)} class="source" tabindex="-1" data-testid="source">
          <span class="source-number">${source.number}</span><${Source} ...${source} isOpened=${isOpened(source)} />
        </li>`,
      )}
    </ol>
  </section>`;
}

function Source({ title, href, text, isOpened }) {
  const target = safeHref(href);
  const name = withHonestHosts(visibleProse(title || target || t("Untitled")));
  const host = target && new URL(target).host;
  const isElsewhere = host && host !== location.host;
  return html`<span class="source-text" dir="auto">
    ${
      target
        ? html`<a href=${target} target="_blank" rel="noopener noreferrer">${name}<${Icon} name="link" /></a>`
        : isOpened
          ? html`<button type="button" class="source-open">${name}</button>`
          : name
    }
    ${isElsewhere && html` <span class="muted">${host}</span>`}
    ${text && html`<q class="muted">${visibleProse(text)}</q>`}
  </span>`;
}
