/** The answers to a question for a truth value. */

import { t } from "./i18n.js";

export const YES_AND_NO = [
  { label: t("Yes"), value: true },
  { label: t("No"), value: false },
];
/** Where null is an answer. */
export const NEITHER = { label: t("Neither"), value: null };
/** Where it can be left out. */
export const NO_ANSWER = { label: t("No answer"), value: null };
