/**
 * The page in the user's language.
 *
 * Components hold their texts in English, as `t("Copy the answer")`; a file in `locales/` maps each to its translation,
 * in alphabetical order. The language is the one chosen on this page or else the first of the browser's that there is.
 * It is loaded before any module that imports this one runs, so texts may be constants. A choice counts from the next
 * load of the page on.
 */

import { browserStorage } from "./browser-storage.js";
import { persistently } from "./persistently.js";

const CHOICES = { language: "chat.language", direction: "chat.direction" };
const RIGHT_TO_LEFT = new Set(["ar", "arc", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"]);

export const LANGUAGES = { en: "English", fr: "Français", de: "Deutsch" };

/** What was chosen for `language` or `direction`; null: as the browser says. */
export const chosen = (what) => browserStorage.get(CHOICES[what]);

/** Keeps a choice; null leaves it to the browser again. */
export function choose(what, value) {
  if (value) browserStorage.set(CHOICES[what], value);
  else browserStorage.delete(CHOICES[what]);
}

const preferred = [chosen("language"), ...navigator.languages]
  .map((tag) => tag?.split("-")[0])
  .find((tag) => tag in LANGUAGES);

/** The page's language, as in BCP 47; numbers and times are written as it does. */
export const language = preferred ?? "en";

const [browsers] = navigator.languages[0]?.split("-") ?? [];
const direction = chosen("direction") ?? (RIGHT_TO_LEFT.has(browsers) && !chosen("language") ? "rtl" : "ltr");
document.documentElement.lang = language;
document.documentElement.dir = direction;

const words = language === "en" ? {} : (await persistently(() => import(`./locales/${language}.js`))).default;
const forms = new Intl.PluralRules(language);

/** `text` in the page's language, with the `values` of its `{name}` places. */
export function t(text, values = {}) {
  return (words[text] ?? text).replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** The form of the text for `count`, as in `plural(2, "{count} tool", "{count} tools")`. */
export function plural(count, one, many, values = {}) {
  return t(forms.select(count) === "one" ? one : many, { count: count.toLocaleString(language), ...values });
}
