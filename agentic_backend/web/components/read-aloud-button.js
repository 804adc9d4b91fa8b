/** Reads an answer aloud, and ends that. */

import { t } from "../i18n.js";
import { persistently } from "../persistently.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { IconButton } from "./icons.js";

/** Not every browser has a voice. */
export const canReadAloud = "speechSynthesis" in window;

/** `htmlOf` makes the HTML of `text`; null while it can't. */
export function ReadAloudButton({ text, htmlOf }) {
  const [isReading, setReading] = useState(false);
  const [hasFailed, setFailed] = useState(false);
  const end = useRef(() => {});
  useEffect(() => () => end.current(), []);
  const ended = (failed) => {
    setReading(false);
    setFailed(failed);
  };
  const pressed = async () => {
    if (isReading) return end.current();
    setReading(true);
    setFailed(false);
    let isWanted = true;
    end.current = () => {
      isWanted = false;
      setReading(false);
    };
    const { readAloud } = await persistently(() => import("../reading-aloud.js"));
    if (isWanted) end.current = readAloud(text, htmlOf(text) ?? "", ended);
  };
  return html`<${IconButton}
      name=${isReading ? "stop" : "speaker"}
      label=${isReading ? t("Stop reading") : t("Read aloud")}
      data-testid="read-aloud"
      onClick=${pressed}
    />
    ${hasFailed && html`<span class="muted" role="status">${t("The browser has no voice for this.")}</span>`}`;
}
