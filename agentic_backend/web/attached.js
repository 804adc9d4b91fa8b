/** The files that belong to a message, and the words for what may be attached. Pure. */

import { formatBytes, visible } from "./format.js";
import { t } from "./i18n.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export const isImage = ({ mime }) => IMAGES.has(mime);

/** The files among a message's parts: `{id, name, mime, size}`. */
export const attachedTo = (parts) =>
  parts
    .filter(({ type }) => type === "file")
    .map(({ attachment_id: id, name, mime, size }) => ({ id, name: visible(name), mime, size }));

/** The parts that are shown beside the files: an image's `image_url` is the same as its file. */
export const besideFiles = (parts) =>
  parts.filter((part) => part.type !== "file" && !(part.type === "image_url" && attachmentAt(part.url)));

/** The id of the attachment with this URL; null if it is another URL. */
export const attachmentAt = (url) => /^\/agentic\/v1\/attachments\/([^/?#]+)$/.exec(url)?.[1] ?? null;

/** What may be attached, by the limits that the server tells. */
export const whatFits = (limits) =>
  t("Images, documents and texts: at most {count} files of {size} each", {
    count: limits.attachments_per_ask,
    size: formatBytes(limits.attachment_bytes),
  });

const DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
const XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
// Beside the media types, which not every system knows.
const ENDINGS = { [DOCX]: [".docx"], [XLSX]: [".xlsx"], "application/pdf": [".pdf"] };
const TEXTS = ["text/*", ".md", ".csv", ".tsv", ".json", ".yaml", ".yml", ".log"];

/** What a file chooser offers, by what the server tells. */
export const offered = ({ attachment_types: types = [] }) =>
  [...types.flatMap((type) => [type, ...(ENDINGS[type] ?? [])]), ...TEXTS].join(",");

/** Why a file can't be attached, before anything of it is sent; null if it can. */
export function misfit(file, count, limits) {
  if (count >= limits.attachments_per_ask) {
    return t("A message takes at most {count} files.", { count: limits.attachments_per_ask });
  }
  const most = limits.attachment_bytes;
  if (file.size > most) {
    const sizes = { limit: formatBytes(most), size: formatBytes(file.size, most) };
    return t("A file has at most {limit}; this has {size}.", sizes);
  }
  return file.size === 0 ? t("The file is empty.") : null;
}
