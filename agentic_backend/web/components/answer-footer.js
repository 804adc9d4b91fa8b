/** What can be done with an answer, and what it took. */

import { formatCount, formatDuration } from "../format.js";
import { CopyButton } from "./copy-button.js";
import { html } from "./html.js";
import { markdownOf } from "./parts.js";

const CUT_SHORT = {
  length: "Cut off at the length limit",
  content_filter: "Cut off by the content filter",
};

export function AnswerFooter({ parts, metadata }) {
  const { token_usage: usage, latency_ms: latency, model, finish_reason: reason } = metadata;
  const facts = [
    CUT_SHORT[reason],
    latency != null && formatDuration(latency),
    usage && `${formatCount(usage.input_tokens)} tokens in, ${formatCount(usage.output_tokens)} out`,
    model,
  ].filter(Boolean);
  return html`<footer class="answer-footer">
    <${CopyButton} text=${markdownOf(parts)} label="Copy the answer" />
    <span class="muted" data-testid="usage">${facts.join(" · ")}</span>
  </footer>`;
}
