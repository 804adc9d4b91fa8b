/** That an exchange works, or can't begin yet. */

import { formatAhead } from "../format.js";
import { useNow } from "./clock.js";
import { html } from "./html.js";
import { activityText } from "./notices.js";

export function Working({ exchange: { progress, stopping, kept }, agentName }) {
  if (kept) return html`<${Kept} ...${kept} />`;
  const text = stopping ? "Stopping…" : progress ? activityText("progress", progress, agentName) : "Working…";
  return html`<p class="working" data-testid=${progress ? "activity" : "working"}>
    <span class="dots"><i /><i /><i /></span><span>${text}</span>
  </p>`;
}

/** An ask that the server could not take yet. */
function Kept({ content, until }) {
  const now = useNow(1_000);
  const when = until === null ? "as soon as it is back" : until > now ? formatAhead(until, now) : "now";
  return html`<p class="working" role="status" data-testid="kept">
    <span class="dots"><i /><i /><i /></span><span>${content} Your message is sent ${when}.</span>
  </p>`;
}
