/** Dictation by the browser's own engine, which may send what it hears to the browser's maker. */

import { language, t } from "./i18n.js";

const Recognition = window.SpeechRecognition ?? window.webkitSpeechRecognition;

/**
 * Listens. `onHeard` gets all that was heard since, of which the last words may still change; `onEnd` is called once, with
 * what went wrong in words, or null. Returns what ends it.
 */
export function dictate({ onHeard, onEnd }) {
  const recognition = Object.assign(new Recognition(), {
    lang: navigator.languages.find((tag) => tag.startsWith(language)) ?? language,
    continuous: true,
    interimResults: true,
  });
  let problem = null;
  let isOver = false;
  const over = () => {
    if (isOver) return;
    isOver = true;
    onEnd(problem);
  };
  recognition.onresult = ({ results }) => {
    if (!isOver) onHeard(Array.from(results, ([best]) => best.transcript.trim()).join(" "));
  };
  recognition.onerror = ({ error }) => (problem = wordsOf(error));
  recognition.onend = over;
  try {
    recognition.start();
  } catch {
    problem = wordsOf("start");
    over();
  }
  return () => {
    over();
    recognition.abort();
  };
}

function wordsOf(error) {
  switch (error) {
    case "no-speech":
    case "aborted":
      return null;
    case "not-allowed":
    case "service-not-allowed":
      return t("The browser does not let this page listen.");
    case "audio-capture":
      return t("There is no microphone.");
    case "network":
      return t("The browser could not reach what recognizes speech.");
    default:
      return t("The browser could not listen.");
  }
}
