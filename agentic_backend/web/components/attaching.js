/** What is attached to what is written: the button, the files with their progress, and the area that takes drops. */

import { isImage, offered, whatFits } from "../attached.js";
import { formatBytes, visible } from "../format.js";
import { plural, t } from "../i18n.js";
import { useImage } from "./attachment-list.js";
import { html, useEffect, useId, useRef, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";

export function AttachButton({ limits, attachments }) {
  const input = useRef(null);
  const id = useId();
  const chosen = () => {
    attachments.add(input.current.files);
    // So that the same file can be chosen again.
    input.current.value = "";
    document.getElementById("composer")?.focus();
  };
  const fits = whatFits(limits);
  return html`<button
      type="button"
      class="icon-button attach"
      aria-label=${t("Attach files")}
      aria-describedby=${id}
      title=${`${t("Attach files")}. ${fits}`}
      data-testid="attach"
      onClick=${() => input.current.click()}
    >
      <${Icon} name="clip" />
    </button>
    <span id=${id} hidden>${fits}</span>
    <input ref=${input} type="file" multiple hidden accept=${offered(limits)} data-testid="file-input" onChange=${chosen} />`;
}

/** The files of the draft, and those on their way. */
export function AttachmentTray({ attached, uploads, limits, attachments }) {
  if (!attached.length && !uploads.length) return null;
  const isBusy = uploads.some(({ error }) => !error);
  return html`<div class="tray" data-testid="tray">
    <ul aria-label=${t("Attached files")}>
      ${attached.map(
        (file) =>
          html`<li key=${file.id} class="tray-file" data-testid="attached">
            ${isImage(file) ? html`<${Preview} id=${file.id} />` : html`<${Icon} name="file" />`}
            <${FileWords} file=${file} />
            <${IconButton}
              name="close"
              label=${t("Remove {name}", { name: file.name })}
              data-testid="remove-attachment"
              onClick=${() => refocused(() => attachments.remove(file.id))}
            />
          </li>`,
      )}
      ${uploads.map((upload) => html`<${Upload} key=${upload.key} upload=${upload} attachments=${attachments} />`)}
    </ul>
    <p class="tray-limits muted">
      ${plural(attached.length, "{count} file attached", "{count} files attached")} · ${whatFits(limits)}
    </p>
    <p class="visually-hidden" role="status">${isBusy ? t("Uploading…") : ""}</p>
  </div>`;
}

function Upload({ upload: { key, name, size, progress, error, preview }, attachments }) {
  const label = error ? t("Dismiss {name}", { name }) : t("Cancel {name}", { name });
  return html`<li class=${error ? "tray-file failed" : "tray-file"} data-testid=${error ? "failed-upload" : "upload"}>
    ${preview && !error ? html`<img class="tray-image" src=${preview} alt="" />` : html`<${Icon} name=${error ? "warning" : "file"} />`}
    <${FileWords} file=${{ name, size }}>
      ${
        error
          ? html`<span class="file-error" role="alert">${error}</span>`
          : html`<progress max="1" value=${progress} aria-label=${t("Upload of {name}", { name })} />`
      }
    <//>
    <${IconButton} name="close" label=${label} onClick=${() => refocused(() => attachments.cancel(key))} />
  </li>`;
}

function FileWords({ file, children }) {
  const name = visible(file.name);
  return html`<span class="file-words">
    <span class="file-name" dir="auto" title=${name}>${name}</span>
    ${children ?? html`<span class="muted">${formatBytes(file.size)}</span>`}
  </span>`;
}

function Preview({ id }) {
  const { url, error } = useImage(id);
  if (error) return html`<${Icon} name="warning" />`;
  return url ? html`<img class="tray-image" src=${url} alt="" />` : html`<span class="spinner" />`;
}

/** Takes files that are dropped anywhere on the page. */
export function DropArea({ limits, attachments }) {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    // Each element on the way is entered before the last one is left.
    let depth = 0;
    const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
    const mayTake = () => !document.querySelector("dialog[open]");
    const over = (change) => (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth = Math.max(0, depth + change);
      event.dataTransfer.dropEffect = mayTake() ? "copy" : "none";
      setOver(depth > 0 && mayTake());
    };
    const dropped = (event) => {
      if (!hasFiles(event)) return;
      // Otherwise the browser would open the file in place of the page.
      event.preventDefault();
      depth = 0;
      setOver(false);
      if (mayTake()) attachments.add(event.dataTransfer.files);
    };
    const listeners = { dragenter: over(1), dragover: over(0), dragleave: over(-1), drop: dropped };
    for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener);
    return () => {
      for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener);
    };
  }, [attachments]);
  if (!isOver) return null;
  return html`<div class="drop-area" data-testid="drop-area">
    <p><${Icon} name="clip" /> ${t("Drop files to attach them")}</p>
    <p class="muted">${whatFits(limits)}</p>
  </div>`;
}

/** Does what takes the focused element away; the focus goes to where the user writes. */
function refocused(work) {
  work();
  document.getElementById("composer")?.focus();
}
