/** Says to screen readers what goes on in the conversation. */

import { isOngoing } from "../client/transcript-exchange.js";
import { t } from "../i18n.js";
import { outcome, textOf, timeline } from "../timeline.js";
import { html, useRef } from "./html.js";

/** A longer text would be read for minutes, and can't be stopped without losing the place. */
const LONGEST_ANNOUNCEMENT = 200;

/** Says to screen readers that the agent works or waits, and how its answer begins when it is there. */
export function Announcer({ exchange, busy }) {
  const heard = useRef(null);
  if (exchange && isOngoing(exchange)) heard.current = exchange.key;
  const text = busy
    ? exchange?.status === "awaiting_human"
      ? t("The agent waits for your decision.")
      : t("The agent is working.")
    : exchange && heard.current === exchange.key
      ? spokenAnswer(exchange)
      : "";
  return html`<div class="visually-hidden" aria-live="polite" data-testid="announcer">${text}</div>`;
}

function spokenAnswer(exchange) {
  const answer = timeline(exchange).findLast(({ kind }) => kind === "final");
  const text = answer ? textOf(answer.parts).replace(/[*_`#>|]+/g, "").replace(/\s+/g, " ").trim() : "";
  const began = text.length > LONGEST_ANNOUNCEMENT ? `${text.slice(0, LONGEST_ANNOUNCEMENT)}…` : text;
  const ending = outcome(exchange) === "stopped" ? t("Stopped.") : "";
  return [began, ending].join(" ").trim() || t("The agent ended without an answer.");
}
