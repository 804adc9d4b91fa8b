/**
 * What code shows, an HTML document or a drawing in SVG, below it, in a sandboxed frame.
 *
 * The document reaches no host, none of the page and nothing of the server: its frame is that of panels, and answers
 * nothing that it asks.
 */

import { t } from "../i18n.js";
import { ownFile } from "../own-files.js";
import { entering, guardedFrom } from "./focus-guard.js";
import { FrameHost } from "./frame-host.js";
import { HIGHEST } from "./host-context.js";
import { pass } from "./keys.js";

const LOWEST = 60;
/** The document's first script: it tells the page how high the document is. */
const MEASURE = `<script>
  new ResizeObserver(() => parent.postMessage({
    jsonrpc: "2.0",
    method: "ui/notifications/size-changed",
    params: { height: document.documentElement.getBoundingClientRect().height },
  }, "*")).observe(document.documentElement);
</script>`;
const DRAWING = "<style>body { margin: 0 } svg { display: block; max-width: 100%; height: auto }</style>";

const ENDS = {
  flood: t("It has sent too much, and was closed."),
  left: t("It has become another document, and was closed."),
};

/** What ends each preview, by its frame. */
const shown = new Map();

/** Shows what `code` in this `language` shows, at the end of `block`. Returns what takes it away. */
export function preview(block, code, language) {
  const frame = Object.assign(document.createElement("iframe"), {
    className: "code-preview",
    title: t("Preview"),
    referrerPolicy: "no-referrer",
    src: ownFile("frame.html"),
  });
  frame.setAttribute("sandbox", "allow-scripts allow-forms");
  const host = new FrameHost(frame, {
    // Only with a type is it read as browsers read documents of today.
    html: `<!doctype html>${MEASURE}${language === "svg" ? DRAWING : ""}${code.replace(/^\s*<!doctype[^>]*>/i, "")}`,
    requests: new Map(),
    notifications: new Map([
      [
        "ui/notifications/size-changed",
        ({ height }) => {
          if (Number.isFinite(height)) frame.style.blockSize = `${Math.min(HIGHEST, Math.max(LOWEST, Math.ceil(height)))}px`;
        },
      ],
    ]),
    onReady: () => {},
    onListening: () => {},
    onKey: (key) => pass(key, frame),
    onEnter: entering,
    onEnd: (why) => {
      end();
      const words = Object.assign(document.createElement("p"), { className: "preview-failure muted", textContent: ENDS[why] });
      words.setAttribute("role", "status");
      frame.replaceWith(words);
    },
  });
  const unguard = guardedFrom(frame);
  const end = () => {
    shown.delete(frame);
    unguard();
    host.close();
  };
  // Blocks go with their conversation, and tell nobody.
  for (const [other, endOther] of shown) if (!other.isConnected) endOther();
  shown.set(frame, end);
  block.append(frame);
  return () => {
    end();
    frame.remove();
    block.querySelector(".preview-failure")?.remove();
  };
}
