/** Numbers, times and addresses as the page shows them. */

import { language, t } from "./i18n.js";
import { serverNow } from "./server-time.js";

const count = new Intl.NumberFormat(language);
const time = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });

export const formatCount = (value) => count.format(value);

export const formatTime = (timestamp) => time.format(new Date(timestamp));

const tenths = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** How long something took: in milliseconds, tenths of a second, or as `formatElapsed` says it. */
export function formatDuration(milliseconds) {
  const rounded = Math.round(milliseconds);
  if (rounded < 1_000) return `${rounded} ms`;
  if (rounded < 59_950) return `${tenths.format(rounded / 1_000)} s`;
  return formatElapsed(Math.max(rounded, 60_000));
}

const UNIT_NAMES = ["byte", "kilobyte", "megabyte", "gigabyte"];

const byteFormats = new Map();

/** One format for each use: to make one takes longer than a frame has for all of the page's numbers. */
function byteFormat(unit, maximumFractionDigits) {
  const name = `${unit} ${maximumFractionDigits}`;
  if (!byteFormats.has(name)) {
    // Of one to the other only the long form says how many: "1 byte", "550 bytes".
    const unitDisplay = unit === "byte" ? "long" : "short";
    const options = { style: "unit", unit, unitDisplay, maximumFractionDigits };
    byteFormats.set(name, new Intl.NumberFormat(language, options));
  }
  return byteFormats.get(name);
}

/** A size as files have it: "256 kB" are 256 times 1,024 bytes. What is larger than `than` never reads the same. */
export function formatBytes(bytes, than = null) {
  const base = than ?? bytes;
  const step = base < 1_024 ? 0 : Math.min(Math.floor(Math.log2(base) / 10), UNIT_NAMES.length - 1);
  const value = bytes / 1_024 ** step;
  const digits = value < 10 && step > 0 ? 1 : 0;
  const rounded = than === null ? value : Math.ceil(value * 10 ** digits) / 10 ** digits;
  return byteFormat(UNIT_NAMES[step], digits).format(rounded);
}

/** How long something has gone on, in whole seconds. */
export function formatElapsed(milliseconds) {
  const seconds = Math.floor(milliseconds / 1_000);
  const minutes = Math.floor(seconds / 60);
  if (minutes === 0) return `${seconds} s`;
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A cost in each of its currencies, as in "$0.0012"; "" without any. */
export const formatCosts = (costs) =>
  costs
    .map(({ amount, currency }) => {
      // Most exchanges cost less than a cent.
      const digits = amount > 0 && amount < 1 ? { maximumSignificantDigits: 2 } : {};
      return new Intl.NumberFormat(language, { style: "currency", currency, ...digits }).format(amount);
    })
    .join(" + ");

const DAY_MS = 86_400_000;
const UNITS = [
  ["day", DAY_MS],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
];
const relative = new Intl.RelativeTimeFormat(language, { numeric: "always" });

/** A time that lies ahead, as in "in 23 hours"; rounded, and never less than a second. */
export function formatAhead(timestamp, now = serverNow()) {
  const left = Math.max(1_000, new Date(timestamp).getTime() - now);
  const [unit, length] = UNITS.find(([, size]) => left >= size);
  return relative.format(Math.round(left / length), unit);
}

/** The heading under which a conversation of that time is listed. */
export function dayGroup(timestamp, now = serverNow()) {
  const today = new Date(now).setHours(0, 0, 0, 0);
  const at = new Date(timestamp).getTime();
  if (at >= today) return t("Today");
  if (at >= today - DAY_MS) return t("Yesterday");
  if (at >= today - 7 * DAY_MS) return t("Previous 7 days");
  if (at >= today - 30 * DAY_MS) return t("Previous 30 days");
  return t("Older");
}

/** The entries of an object in one line, at most `longest` characters of them. */
export const formatEntries = (entries, longest = Infinity) =>
  visible(
    Object.entries(entries)
      .map(([name, value]) => `${name}: ${typeof value === "string" ? value.slice(0, longest) : JSON.stringify(value)}`)
      .join(", ")
      .slice(0, longest),
  );

/**
 * Every character that a reader could not see, could not tell from U+0020, or that would turn round what they see: by
 * Unicode's names of properties, as of the browser's version, and some that are drawn as nothing. The server's list is
 * agentic_backend/text/invisible_characters.py, which also says where which of them are shown; a test compares the two.
 */
const INVISIBLE =
  /(?! )[\p{Z}\p{C}\p{Default_Ignorable_Code_Point}\u2800\ufffc\u{16fe4}\u{13441}\u{13442}\u{1d159}]/gu;
const OF_LINES = /[\t\n]/;
const OF_PROSE = /[\t\n\p{Zs}\u200c\u200d\ufe0e\ufe0f]/u;

const coded = (text, stays) =>
  text.replace(INVISIBLE, (sign) => (stays?.test(sign) ? sign : `\\u{${sign.codePointAt(0).toString(16)}}`));

/** A name or another text in one line, with what is invisible as its code: what is approved must be what is shown. */
export const visible = (text) => coded(text);

/** The same for a value: its line feeds and tabs stay. */
export const visibleLines = (text) => coded(text, OF_LINES);

/** The same for prose, in which spaces, joiners and the selectors of emoji stay too: nobody consents to its letters. */
export const visibleProse = (text) => coded(text, OF_PROSE);

export const formatJson = (value) => JSON.stringify(value, null, 2);

/** The same with what is invisible as JSON's escapes: to be seen and edited, and read as the same value. */
export const editableJson = (value) =>
  formatJson(value).replace(INVISIBLE, (sign) =>
    sign === "\n"
      ? sign
      : [...Array(sign.length).keys()]
          .map((unit) => `\\u${sign.charCodeAt(unit).toString(16).padStart(4, "0")}`)
          .join(""),
  );
