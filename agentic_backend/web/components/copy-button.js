/** Copies a text and says so for a moment. */

import { copyText } from "../clipboard.js";
import { t } from "../i18n.js";
import { html, useState } from "./html.js";
import { IconButton } from "./icons.js";

const COPIED_MS = 1_500;

/** `htmlOf`, if it is given, makes the HTML of it that is copied beside it. */
export function CopyButton({ text, htmlOf = () => null, label, testId }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await copyText(text, htmlOf(text));
    setCopied(true);
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  return html`<${IconButton}
    name=${copied ? "check" : "copy"}
    label=${copied ? t("Copied") : label}
    data-testid=${testId}
    onClick=${copy}
  />`;
}
