/** The result of an MCP tool in the HTML document that its server has for it (MCP Apps). */

import { attachmentAt } from "../attached.js";
import { html, useEffect, useMemo, useState } from "../components/html.js";
import { RichText } from "../components/rich-text.js";
import { visible } from "../format.js";
import { t } from "../i18n.js";
import { frameQuery } from "./needs.js";
import { isObject } from "./plain-json.js";
import { PanelView } from "./panel-view.js";

/** Until the document is there, and where it can't be, the part's words are shown. `load` resolves to the Panels. */
export function McpApp({ part, load }) {
  const [panels, setPanels] = useState(null);
  useEffect(() => {
    let isShown = true;
    load().then(async (loaded) => {
      await loaded.styled();
      if (isShown) setPanels(loaded);
    });
    return () => (isShown = false);
  }, []);
  const app = useMemo(() => panels && appOf(part, panels.store.state.conversation.sessionId), [panels, part.data.resource, part.rank]);
  const words = html`<${RichText} text=${part.text} />`;
  if (!app) return words;
  return html`<div class=${app.isBare ? "panel-part bare" : "panel-part"} data-testid="mcp-app">
    <${PanelView} key=${app.key} panel=${app} panels=${panels} part=${part}>${words}<//>
  </div>`;
}

/** A panel for what a server has said in this conversation; null if that is no such document. */
function appOf({ data, rank }, sessionId) {
  const { server, tool, title, resource, input, result, prefers_border: border, needs } = data;
  if (!attachmentAt(resource) || !isObject(input) || !isObject(result)) return null;
  return {
    key: resource,
    title: visible(String(title)),
    application: t("MCP server {server}", { server: visible(String(server)) }),
    path: resource,
    sessionId,
    rank,
    isInline: true,
    isBare: border === false,
    /** It is a server's that nobody here has written: what it asks in the person's name, they read first. */
    may: ["ask"],
    asksFirst: true,
    isOfTool: true,
    tool: String(tool),
    needs: isObject(needs) ? needs : {},
    query: frameQuery({ server: String(server), needs: isObject(needs) ? needs : {} }),
  };
}
