/**
 * Untrusted Markdown to safe HTML, in pieces.
 *
 * markdown-it renders with raw HTML off; DOMPurify then lets only the tags and attributes through that this renderer
 * makes. A text becomes one piece of HTML per top-level block, so that a text that grows changes only its last pieces.
 * Code blocks carry a `button.copy-code`, images of other hosts a `button.show-image` in their place (see images.js);
 * `components/rich-text.js` gives both their click.
 */

import { imageAt } from "./images.js";
import MarkdownIt from "./vendor/markdown-it.js";
import DOMPurify from "./vendor/purify.js";

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: true });
// Only what is written as a URL: `main.py` and `README.md` are files, not hosts in Paraguay and Moldova.
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

const { escapeHtml } = markdown.utils;

const ALLOWED = {
  ALLOWED_TAGS: (
    "a blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr img li ol p pre s span strong table tbody td th " +
    "thead tr ul"
  ).split(" "),
  ALLOWED_ATTR: ["alt", "class", "data-src", "href", "loading", "rel", "src", "start", "target", "title", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

const purifier = DOMPurify(window);
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

/**
 * The top-level blocks of `text` as `{html, safe}`, `safe` being fit to insert. Pieces of `previous` that have not
 * changed are the same objects again, which spares their purification.
 */
export function renderPieces(text, previous = []) {
  const environment = {};
  return topLevel(markdown.parse(text, environment)).map((tokens, index) => {
    const html = markdown.renderer.render(tokens, markdown.options, environment);
    return previous[index]?.html === html ? previous[index] : { html, safe: purifier.sanitize(html, ALLOWED) };
  });
}

function topLevel(tokens) {
  const pieces = [];
  let piece = [];
  let depth = 0;
  for (const token of tokens) {
    piece.push(token);
    depth += token.nesting;
    if (depth > 0) continue;
    pieces.push(piece);
    piece = [];
  }
  return pieces;
}

/**
 * The text as it can be shown while it is being written: what its last characters mean is not known yet, so marks
 * that would make the paragraph before them flicker are held back, and emphasis and code that are open are closed.
 */
export function steady(text) {
  if ((text.match(/^ {0,3}(```|~~~)/gm) ?? []).length % 2) return text;
  const settled = text.replace(/\n[ \t]*(?:[-=*+_`~#>|]{1,3}|\d{1,9}[.)]?)[ \t]*$/, "\n");
  const start = settled.lastIndexOf("\n\n") + 1;
  return settled.slice(0, start) + closed(settled.slice(start));
}

function closed(paragraph) {
  const text = paragraph.replace(/!?\[([^\]\n]*)\]\([^)\s]*$/, "$1");
  const outsideCode = text.replace(/`[^`]*`/g, "");
  if (outsideCode.includes("`")) return `${text}\``;
  const opened = outsideCode.split("**").length - 1;
  if (opened % 2 === 0) return text;
  return /\*\*\s*$/.test(text) ? text.replace(/\*\*\s*$/, "") : `${text.replace(/\*$/, "").trimEnd()}**`;
}

const { rules } = markdown.renderer;

/** markdown-it aligns cells by a style attribute, which the content security policy forbids. */
for (const rule of ["th_open", "td_open"]) {
  rules[rule] = (tokens, index, options, _environment, self) => {
    const alignment = /text-align:(\w+)/.exec(tokens[index].attrGet("style") ?? "")?.[1];
    tokens[index].attrs = alignment ? [["class", `align-${alignment}`]] : [];
    return self.renderToken(tokens, index, options);
  };
}

rules.table_open = () => '<div class="table"><table>\n';
rules.table_close = () => "</table></div>\n";

const codeBlock = (code, language) =>
  `<div class="code"><div class="code-head"><span>${escapeHtml(language)}</span>` +
  `<button type="button" class="copy-code">Copy</button></div><pre><code>${escapeHtml(code)}</code></pre></div>\n`;

rules.fence = (tokens, index) => codeBlock(tokens[index].content, tokens[index].info.trim().split(/\s+/)[0]);
rules.code_block = (tokens, index) => codeBlock(tokens[index].content, "");

rules.image = (tokens, index) => {
  const source = tokens[index].attrGet("src") ?? "";
  const alt = escapeHtml(tokens[index].content);
  const image = imageAt(source);
  if (!image) return `<a href="${escapeHtml(source)}">${alt || escapeHtml(source)}</a>`;
  const [href, host] = [image.href, image.host ?? ""].map(escapeHtml);
  if (!host) return `<img src="${href}" alt="${alt}" loading="lazy">`;
  return (
    `<button type="button" class="show-image" data-src="${href}" title="${href}">` +
    `Show image from <span class="image-host">${host}</span>${alt && `: <span class="image-alt">${alt}</span>`}</button>`
  );
};
