/** The parts of a message. Text is Markdown; everything else is shown by preact from its fields. */

import { formatJson, visible, visibleProse } from "../format.js";
import { plural, t } from "../i18n.js";
import { attachmentAt } from "../attached.js";
import { askForImage, imageAt, unnamedImage } from "../images.js";
import { safeHref, withHonestHosts } from "../links.js";
import { useImage } from "./attachment-list.js";
import { createContext, html, useContext, useEffect, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { lazy } from "./lazy.js";
import { RichText } from "./rich-text.js";

const McpApp = lazy(async () => (await import("../panels/mcp-app.js")).McpApp);
const PartPanel = lazy(async () => (await import("../panels/part-panel.js")).PartPanel);

/** The Panels of the page; null where there are none. */
export const PanelsContext = createContext(null);

/** Resolves to the Panels of the page, once they are loaded; null where nothing is shown in any. */
export const PanelLoaderContext = createContext(null);

/** The kind of the parts in which the tools of MCP servers show their results (MCP Apps). */
const MCP_APP = "mcp:app";

/** `onShown` gets the element of each text that is whole, once that is shown. */
export function Parts({ parts, streaming, onShown }) {
  return parts.map(
    (part, index) => html`<${Part} key=${index} part=${part} streaming=${streaming} onShown=${onShown} />`,
  );
}

function Part({ part, streaming, onShown }) {
  switch (part.type) {
    case "text":
      return html`<${RichText} text=${part.text} streaming=${streaming} onShown=${onShown} />`;
    case "custom":
      return html`<${CustomPart} part=${part} onShown=${onShown} />`;
    case "code":
      return html`<${RichText} text=${fenced(part)} />`;
    case "image_url":
      return html`<${Picture} part=${part} />`;
    case "link":
      return html`<${LinkPart} part=${part} />`;
    case "geo":
      return html`<${Geography} part=${part} />`;
    default:
      return null;
  }
}

/** Of a form that no panel is for, the page shows the words. */
function CustomPart({ part, onShown }) {
  const panels = useContext(PanelsContext);
  const load = useContext(PanelLoaderContext);
  if (part.kind === MCP_APP && load) return html`<${McpApp} part=${part} load=${load} />`;
  const panel = panels?.forPart(part.kind);
  if (!panel) return html`<${RichText} text=${part.text} onShown=${onShown} />`;
  return html`<${PartPanel} part=${part} panels=${panels} panel=${panel} />`;
}

/** The text of an answer as its author wrote it, to be copied. */
export const markdownOf = (parts) =>
  parts
    .map((part) => (part.type === "text" || part.type === "custom" ? part.text : part.type === "code" ? fenced(part) : null))
    .filter(Boolean)
    .join("\n\n");

/** The code as a Markdown fence that is longer than any inside it. */
function fenced({ code, language }) {
  const longest = Math.max(2, ...(code.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${(language ?? "").replace(/[`\s]/g, "")}\n${code.replace(/\n$/, "")}\n${fence}`;
}

function Picture({ part: { url, alt } }) {
  // Which one was asked for: another image that takes its place was not.
  const [asked, setAsked] = useState(null);
  const shown = useRef(null);
  useEffect(() => shown.current?.focus({ preventScroll: true }), [asked]);
  const attachment = attachmentAt(url);
  if (attachment) return html`<${AttachedPicture} id=${attachment} alt=${alt} />`;
  const image = imageAt(url);
  if (!image) return html`<p class="chips"><${LinkChip} href=${url} title=${alt} label=${t("Image")} /></p>`;
  const { href, host } = image;
  if (!host) return html`<img class="picture" src=${href} alt=${alt ?? ""} loading="lazy" />`;
  if (asked !== href)
    return html`<button type="button" class="show-image" title=${href} onClick=${() => setAsked(href)}>
      ${askForImage[0]}<span class="image-host">${host}</span>${askForImage[1]}
      ${alt && html`: <span class="image-alt">${alt}</span>`}
    </button>`;
  return html`<img
    class="picture"
    ref=${shown}
    referrerpolicy="no-referrer"
    alt=${alt || unnamedImage(host)}
    tabindex="-1"
    src=${href}
  />`;
}

/** An image that is attached to a message, which needs the user's token. */
function AttachedPicture({ id, alt }) {
  const { url, error } = useImage(id);
  if (error) return html`<p class="muted">${alt}: ${error}</p>`;
  return url && html`<img class="picture" src=${url} alt=${alt ?? ""} />`;
}

const LINK_KINDS = {
  citation: t("Source"),
  download: t("Download"),
  dashboard: t("Dashboard"),
  related: t("Related"),
  view: t("View"),
};

function LinkPart({ part }) {
  const panels = useContext(PanelsContext);
  if (panels?.forLink(part)) {
    const opened = ({ currentTarget }) => panels.openLink(part, currentTarget);
    return html`<p class="chips">
      <button type="button" class="chip" onClick=${opened}><${ChipText} ...${part} label=${LINK_KINDS[part.kind]} /></button>
    </p>`;
  }
  return html`<p class="chips"><${LinkChip} ...${part} label=${LINK_KINDS[part.kind]} /></p>`;
}

/** A link, or its title alone where it leads nowhere safe. */
export function LinkChip({ href, title, file_name: fileName, kind, label }) {
  const target = safeHref(href);
  const content = html`<${ChipText} href=${href} title=${title} file_name=${fileName} label=${label} />`;
  if (!target) return html`<span class="chip">${content}</span>`;
  const download = kind === "download" ? visible(fileName ?? "") : undefined;
  return html`<a class="chip" href=${target} target="_blank" rel="noopener noreferrer" download=${download}>
    ${content}<${Icon} name="link" />
  </a>`;
}

function ChipText({ href, title, file_name: fileName, label }) {
  const text = withHonestHosts(visibleProse(title ?? "")) || visible(fileName ?? "") || safeHref(href) || t("Untitled");
  return html`${label && html`<span class="chip-label">${label}</span>`}
    <span class="chip-text">${text}</span>`;
}

function Geography({ part: { geojson } }) {
  const count = geojson.features?.length;
  return html`<details class="card">
    <summary class="card-head">
      ${t("Map data")}${count !== undefined && ` (${plural(count, "{count} feature", "{count} features")})`}
      <span class="spacer" />
      <${Icon} name="chevron" />
    </summary>
    <div class="card-body"><pre class="json">${formatJson(geojson)}</pre></div>
  </details>`;
}
