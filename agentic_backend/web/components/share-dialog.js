/** Makes links by which others may read a conversation, lists those that are open, and closes them. */

import { errorText } from "../error-words.js";
import { formatAhead, formatTime } from "../format.js";
import { plural, t } from "../i18n.js";
import { CopyButton } from "./copy-button.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "./html.js";

const CHOICES = [1, 7, 30, 90, 365];

/** `sharing` is `{default_days, longest_days}`; see GET /info. */
export function ShareDialog({ sessionId, api, sharing, onClose }) {
  const id = useId();
  const dialog = useRef(null);
  const [shares, setShares] = useState(null);
  const [made, setMade] = useState(null);
  const [error, setError] = useState(null);
  useLayoutEffect(() => dialog.current.showModal(), []);
  const told = async (change) => {
    setError(null);
    try {
      await change();
      setShares((await api.shares(sessionId)).shares);
    } catch (failure) {
      setError(errorText(failure));
    }
  };
  useEffect(() => {
    told(() => {});
  }, []);
  const make = (days) => told(async () => setMade(await api.share(sessionId, days)));
  const revoke = (shareId) =>
    told(async () => {
      await api.revokeShare(sessionId, shareId);
      if (made?.id === shareId) setMade(null);
      // The button that had the focus goes.
      dialog.current.querySelector("h2").focus();
    });
  return html`<dialog ref=${dialog} class="dialog share" aria-labelledby=${id} data-testid="share-dialog" onClose=${onClose}>
    <h2 id=${id} tabindex="-1">${t("Share this conversation")}</h2>
    <p>
      ${t("Everybody who can sign in here and has the link may read what has been answered so far, with what tools were given and returned. Files are not shared.")}
    </p>
    <${NewLink} sharing=${sharing} onMake=${make} />
    ${made && html`<${MadeLink} key=${made.id} made=${made} />`}
    ${error && html`<p class="notice error" role="alert">${error}</p>`}
    ${!shares && !error && html`<p class="muted" role="status">${t("Loading")}</p>`}
    <${OpenLinks} shares=${shares ?? []} onRevoke=${revoke} />
    <footer>
      <button type="button" class="button" onClick=${() => dialog.current.close()}>${t("Close")}</button>
    </footer>
  </dialog>`;
}

function NewLink({ sharing: { default_days: byDefault, longest_days: longest }, onMake }) {
  const [days, setDays] = useState(byDefault);
  const choices = [...new Set([...CHOICES.filter((each) => each <= longest), byDefault, longest])].sort((a, b) => a - b);
  return html`<div class="share-new">
    <label class="field">
      <span>${t("The link is open for")}</span>
      <select data-testid="share-days" value=${days} onChange=${({ target }) => setDays(Number(target.value))}>
        ${choices.map((each) => html`<option key=${each} value=${each}>${plural(each, "{count} day", "{count} days")}</option>`)}
      </select>
    </label>
    <button type="button" class="button primary" data-testid="make-link" onClick=${() => onMake(days)}>
      ${t("Make a link")}
    </button>
  </div>`;
}

function MadeLink({ made }) {
  const field = useRef(null);
  const url = new URL(made.path.replace(/^\//, ""), document.baseURI).href;
  useLayoutEffect(() => {
    field.current.focus();
    field.current.select();
  }, []);
  return html`<div class="share-made">
    <label class="field">
      <span>${t("The link; it is shown only now")}</span>
      <input ref=${field} type="text" readonly dir="ltr" data-testid="share-link" value=${url} />
    </label>
    <${CopyButton} text=${url} label=${t("Copy the link")} testId="copy-link" />
  </div>`;
}

function OpenLinks({ shares, onRevoke }) {
  if (!shares.length) return null;
  return html`<h3>${t("Open links")}</h3>
    <ul class="share-list" data-testid="open-links">
      ${shares.map(
        (share) => html`<li key=${share.id}>
          <span>
            ${t("Made {time}, closes {ahead}", {
              time: formatTime(share.created_at),
              ahead: formatAhead(share.expires_at),
            })}
          </span>
          <button type="button" class="button danger" data-testid="revoke-link" onClick=${() => onRevoke(share.id)}>
            ${t("Close the link")}
          </button>
        </li>`,
      )}
    </ul>`;
}
