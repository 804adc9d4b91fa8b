/** A panel in its sandboxed frame, with what the person is asked for it. */

import { ConfirmDialog } from "../components/confirm-dialog.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../components/html.js";
import { errorText } from "../error-words.js";
import { t } from "../i18n.js";
import { ownFile } from "../own-files.js";
import { HIGHEST } from "./host-context.js";
import { lackingWords } from "./needs.js";
import { PanelHost } from "./panel-host.js";

const LOWEST = 40;
/** How long a question of a panel is there before it can be answered with yes. */
const READ_MS = 700;

/**
 * `part` is the part that the panel shows, or null; `link` what a link has opened in it last, see Panels. `children` are
 * shown until the panel listens, and where it can't.
 */
export function PanelView({ panel, panels, part = null, link = null, sessionId = null, children }) {
  const frame = useRef(null);
  const host = useRef(null);
  const [document, setDocument] = useState(null);
  const [failure, setFailure] = useState(null);
  const [height, setHeight] = useState(null);
  const [listens, setListens] = useState(false);
  const [asked, setAsked] = useState(null);
  const [lacking, setLacking] = useState(null);
  useEffect(() => {
    let isShown = true;
    setFailure(null);
    panels.document(panel).then(
      (text) => isShown && setDocument(text),
      (error) => isShown && setFailure(errorText(error)),
    );
    return () => (isShown = false);
  }, [panel]);
  // At once: a frame of the cache speaks soon.
  useLayoutEffect(() => {
    if (!frame.current) return undefined;
    host.current = new PanelHost({
      frame: frame.current,
      html: document,
      panel,
      panels,
      confirm: (question) => new Promise((resolve) => setAsked((before) => open(before, question, resolve))),
      onHeight: (wanted) => panel.isInline && setHeight(Math.min(HIGHEST, Math.max(LOWEST, Math.ceil(wanted)))),
      onReady: (allowed) => panel.needs && setLacking(lackingWords(panel.needs, allowed)),
      onListening: () => setListens(true),
      onEnd: (why) => setFailure(ENDS[why]),
    });
    return () => host.current.close();
  }, [document]);
  useEffect(() => part && host.current?.show(part), [document, part]);
  useEffect(() => link && host.current?.open(link), [document, link]);
  useEffect(() => host.current?.look(), [sessionId]);
  if (failure) return html`${children}<p class="panel-failure muted" role="status">${panel.title}: ${failure}</p>`;
  if (document === null) return children ?? null;
  const isWaiting = Boolean(children) && !listens;
  return html`${isWaiting && children}<div class="panel-place">
      <iframe
        ref=${frame}
        class=${isWaiting ? "panel-frame waiting" : "panel-frame"}
        inert=${isWaiting}
        title=${panel.title}
        sandbox="allow-scripts allow-forms"
        referrerpolicy="no-referrer"
        style=${height === null ? undefined : { blockSize: `${height}px` }}
        src=${ownFile("frame.html") + (panel.query ?? "")}
      />
    </div>
    ${lacking && html`<p class="panel-note muted" data-testid="panel-lacking">${lacking}</p>`}
    ${
      asked &&
      html`<${ConfirmDialog}
        title=${`${panel.application}, ${panel.title}: ${asked.title}`}
        text=${asked.text}
        confirm=${asked.confirm}
        afterMs=${READ_MS}
        onConfirm=${() => asked.resolve(true)}
        onClose=${() => {
          asked.resolve(false);
          setAsked(null);
        }}
      />`
    }`;
}

/** One question at a time: another one is answered with no. */
function open(before, question, resolve) {
  if (!before) return { ...question, resolve };
  resolve(false);
  return before;
}

const ENDS = {
  flood: t("It has sent too much, and was closed."),
  left: t("It has become another document, and was closed."),
};
