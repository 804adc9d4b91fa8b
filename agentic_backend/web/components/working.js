/** That an exchange works, for how long, or what it waits for before it can. */

import { errorText } from "../error-words.js";
import { formatAhead, formatElapsed } from "../format.js";
import { t } from "../i18n.js";
import { useNow } from "./clock.js";
import { html, useState } from "./html.js";
import { activityText } from "./notices.js";

/** A clock of the server's that differs by more is not believed. */
const LONGEST_MS = 86_400_000;

/** `isHeard`: whether the server is connected, without which nobody knows that it works. */
export function Working({ exchange, isHeard, agentName }) {
  const { status, progress, stopping, kept } = exchange;
  if (kept) return html`<${Kept} ...${kept} />`;
  if (status === "sending" || !isHeard) {
    return html`<${Line} testId="waiting-for-server" text=${t("Waiting for the server…")} />`;
  }
  if (stopping) return html`<${Line} testId="working" text=${t("Stopping…")} />`;
  const text = progress ? activityText("progress", progress, agentName) : t("Working…");
  const elapsed = html`<${Elapsed} since=${exchange.messages[0]?.timestamp} />`;
  return html`<${Line} testId=${progress ? "activity" : "working"} text=${text} more=${elapsed} />`;
}

/** How long something has gone on that began at the time `since`, after a `sign`; not read aloud every second. */
export function Elapsed({ since, sign = "" }) {
  const now = useNow(1_000);
  const [seenAt] = useState(now);
  const begunAt = Date.parse(since);
  const elapsed = now - (seenAt - begunAt < LONGEST_MS ? Math.min(begunAt, seenAt) : seenAt);
  return elapsed >= 1_000 && html`<span class="muted" aria-hidden="true">${sign}${formatElapsed(elapsed)}</span>`;
}

function Line({ testId, text, more }) {
  return html`<p class="working" data-testid=${testId}>
    <span class="dots"><i /><i /><i /></span><span>${text}</span>${more}
  </p>`;
}

/** An ask that the server could not take yet. */
function Kept({ until, ...error }) {
  useNow(1_000);
  // It was reckoned by this clock.
  const now = Date.now();
  const when =
    until === null
      ? t("Your message is sent as soon as it is back.")
      : until > now
        ? t("Your message is sent {when}.", { when: formatAhead(until, now) })
        : t("Your message is sent now.");
  return html`<p class="working" role="status" data-testid="kept">
    <span class="dots"><i /><i /><i /></span><span>${errorText(error)} ${when}</span>
  </p>`;
}
