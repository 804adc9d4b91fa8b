/** The button that begins and ends dictation, and what is told meanwhile. */

import { t } from "../i18n.js";
import { persistently } from "../persistently.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";

/** Not every browser can listen. */
const canDictate = "SpeechRecognition" in window || "webkitSpeechRecognition" in window;

/**
 * What is heard goes behind what is written, by `onWritten`; null where the browser can't listen. `area` refers to the
 * field, `sessionId` is of the conversation to which it belongs.
 */
export function useDictation({ area, sessionId, onWritten }) {
  const [isListening, setListening] = useState(false);
  const [problem, setProblem] = useState(null);
  const stop = useRef(() => {});
  const end = () => stop.current();
  useEffect(() => {
    setProblem(null);
    return end;
  }, [sessionId]);
  const begin = async () => {
    let isWanted = true;
    stop.current = () => {
      isWanted = false;
      setListening(false);
    };
    setProblem(null);
    setListening(true);
    const { dictate } = await persistently(() => import("../dictation.js"));
    if (!isWanted) return;
    // Behind what is written when it begins, or was changed by hand since.
    let before = area.current.value;
    let written = before;
    let [heardBefore, last] = ["", ""];
    stop.current = dictate({
      onHeard: (heard) => {
        if (area.current.value !== written) {
          before = area.current.value;
          heardBefore = last;
        }
        last = heard;
        const own = heard.startsWith(heardBefore) ? heard.slice(heardBefore.length).trim() : heard;
        written = [before.trimEnd(), own].filter(Boolean).join(" ");
        // At once: the next words may come before the page renders these.
        area.current.value = written;
        onWritten(written);
      },
      onEnd: (why) => {
        setListening(false);
        setProblem(why);
      },
    });
  };
  return canDictate ? { isListening, problem, begin, end } : null;
}

export function DictateButton({ dictation: { isListening, begin, end } }) {
  return html`<${IconButton}
    name="microphone"
    label=${isListening ? t("Stop dictating") : t("Dictate: the browser may send what you say to its maker")}
    class=${isListening ? "icon-button dictate listening" : "icon-button dictate"}
    data-testid="dictate"
    aria-pressed=${String(isListening)}
    onClick=${isListening ? end : begin}
  />`;
}

export function DictationHint({ dictation: { isListening, problem } }) {
  if (!isListening && !problem) return null;
  return html`<p class="composer-hint" role="status" data-testid="dictation">
    <${Icon} name=${problem ? "warning" : "microphone"} />
    <span>${problem ?? t("The browser listens. Esc ends it.")}</span>
  </p>`;
}
