/** The files that belong to a message: images as thumbnails that open larger, others as chips that download. */

import { errorText } from "../error-words.js";
import { formatBytes } from "../format.js";
import { isImage } from "../attached.js";
import { t } from "../i18n.js";
import { createContext, html, useContext, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";

/** Fetches them; see Attachments. */
export const AttachmentsContext = createContext(null);

export function AttachmentList({ files }) {
  return html`<ul class="attachments" aria-label=${t("Attached files")} data-testid="attachments">
    ${files.map((file) => html`<li key=${file.id}>${isImage(file) ? html`<${Thumbnail} file=${file} />` : html`<${FileChip} file=${file} />`}</li>`)}
  </ul>`;
}

/** `{url, error}` of an image, both null until one of them is known. */
export function useImage(id) {
  const attachments = useContext(AttachmentsContext);
  const [image, setImage] = useState({ url: null, error: null });
  useEffect(() => {
    let isUsed = true;
    const show = (found) => isUsed && setImage({ url: null, error: null, ...found });
    attachments.image(id).then(
      (url) => show({ url }),
      (error) => show({ error: errorText(error) }),
    );
    return () => {
      isUsed = false;
      attachments.release(id);
    };
  }, [id]);
  return image;
}

function Thumbnail({ file }) {
  const { url, error } = useImage(file.id);
  const [isOpen, setOpen] = useState(false);
  if (error)
    return html`<span class="file-chip failed"><${Icon} name="warning" /><span>${file.name}: ${error}</span></span>`;
  return html`<button
      type="button"
      class="thumbnail"
      aria-label=${t("Show {name}", { name: file.name })}
      title=${file.name}
      data-testid="thumbnail"
      disabled=${!url}
      onClick=${() => setOpen(true)}
    >
      ${url ? html`<img src=${url} alt="" />` : html`<span class="spinner" />`}
    </button>
    ${isOpen && html`<${ImageDialog} file=${file} url=${url} onClose=${() => setOpen(false)} />`}`;
}

function ImageDialog({ file, url, onClose }) {
  const dialog = useRef(null);
  useLayoutEffect(() => dialog.current.showModal(), []);
  const close = () => dialog.current.close();
  return html`<dialog
    ref=${dialog}
    class="image-dialog"
    aria-label=${file.name}
    data-testid="image-dialog"
    onClose=${onClose}
    onClick=${({ target }) => target === dialog.current && close()}
  >
    <header>
      <span class="image-name" dir="auto">${file.name}</span>
      <span class="muted">${formatBytes(file.size)}</span>
      <span class="spacer" />
      <${DownloadButton} file=${file} />
      <${IconButton} name="close" label=${t("Close")} onClick=${close} />
    </header>
    <img src=${url} alt=${file.name} />
  </dialog>`;
}

function DownloadButton({ file }) {
  const { download, error } = useDownload(file);
  return html`${error && html`<span role="alert">${error}</span>`}
    <${IconButton} name="download" label=${t("Download")} onClick=${download} />`;
}

export function FileChip({ file }) {
  const { download, error } = useDownload(file);
  return html`<button
      type="button"
      class="file-chip"
      title=${t("Download {name}", { name: file.name })}
      data-testid="file-chip"
      onClick=${download}
    >
      <${Icon} name="file" />
      <span class="visually-hidden">${t("Download")} </span>
      <span class="file-name" dir="auto">${file.name}</span>
      <span class="muted">${formatBytes(file.size)}</span>
    </button>
    ${error && html`<span class="file-error" role="alert">${error}</span>`}`;
}

function useDownload(file) {
  const attachments = useContext(AttachmentsContext);
  const [error, setError] = useState(null);
  const download = () =>
    attachments.download(file).then(
      () => setError(null),
      (failure) => setError(errorText(failure)),
    );
  return { download, error };
}
