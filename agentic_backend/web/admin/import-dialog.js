/** Takes the agents of a catalog file into the database. What is wrong with the file is said, and nothing is taken. */

import { html, useLayoutEffect, useRef, useState } from "../components/html.js";
import { errorText } from "../error-words.js";
import { t } from "../i18n.js";

export function ImportDialog({ catalog, onClose }) {
  const dialog = useRef(null);
  const [file, setFile] = useState(null);
  const [failed, setFailed] = useState(null);
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => dialog.current.showModal(), []);
  const submitted = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await catalog.import(await file.text());
      onClose();
    } catch (error) {
      setFailed(error);
      setBusy(false);
    }
  };
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby="import-title" data-testid="import-dialog" onClose=${onClose}>
    <form onSubmit=${submitted}>
      <h2 id="import-title">${t("Import agents")}</h2>
      <p>${t("The agents of the file become those of the database; one that is there already gets a new version.")}</p>
      <label class="field">
        <span>${t("Catalog file (YAML)")}</span>
        <input
          type="file"
          accept=".yaml,.yml,application/yaml"
          data-testid="import-file"
          onChange=${({ target }) => {
            setFile(target.files[0] ?? null);
            setFailed(null);
          }}
        />
      </label>
      ${failed && html`<${Failure} error=${failed} />`}
      <footer>
        <button type="button" class="button" onClick=${() => dialog.current.close()}>${t("Cancel")}</button>
        <button type="submit" class="button primary" data-testid="do-import" disabled=${!file || busy}>${t("Import")}</button>
      </footer>
    </form>
  </dialog>`;
}

function Failure({ error }) {
  const { problems = [] } = error;
  return html`<div class="notice error" role="alert" data-testid="import-error">
    <div class="notice-text">
      <p>${errorText(error)}</p>
      ${problems.map(
        ({ message, line }, index) =>
          html`<p key=${index}>${line ? `${t("Line {line}", { line })}: ${message}` : message}</p>`,
      )}
    </div>
  </div>`;
}
