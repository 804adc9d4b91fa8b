/** What can be done with an answer, what the user says of it, and what it took. */

import { formatCount, formatDuration } from "../format.js";
import { t } from "../i18n.js";
import { CopyButton } from "./copy-button.js";
import { html } from "./html.js";
import { IconButton } from "./icons.js";
import { markdownOf } from "./parts.js";
import { Rating } from "./rating.js";
import { Usage } from "./usage.js";

const CUT_SHORT = {
  length: t("Cut off at the length limit"),
  content_filter: t("Cut off by the content filter"),
};

/**
 * `conversation` is null where nothing can be said of the answer: in a query, and in what somebody else shares.
 * `onRegenerate` (null: it can't be) asks its question again.
 */
export function AnswerFooter({ message, said, conversation, onRegenerate }) {
  const { parts, rank, session_id: sessionId, exchange_id: exchangeId } = message;
  const metadata = message.metadata ?? {};
  const { feedback } = conversation ?? {};
  const isKept = Boolean(feedback && sessionId);
  const reason = CUT_SHORT[metadata.finish_reason];
  return html`<footer class="answer-footer">
    <${CopyButton} text=${markdownOf(parts)} label=${t("Copy the answer")} />
    ${
      onRegenerate &&
      html`<${IconButton}
        name="retry"
        label=${t("Regenerate the answer")}
        data-testid="regenerate"
        onClick=${onRegenerate}
      />`
    }
    ${
      isKept &&
      html`<${Rating}
        said=${said[rank]}
        onGive=${(rating, comment) => feedback.give(rank, rating, comment)}
        onWithdraw=${() => feedback.withdraw(rank)}
      />`
    }
    <${Took} metadata=${metadata} load=${isKept ? () => conversation.api.usage({ exchangeId }) : null} />
    ${reason && html`<span class="muted" data-testid="cut-short">${reason}</span>`}
  </footer>`;
}

function Took({ metadata: { token_usage: tokens, latency_ms: latency, model }, load }) {
  const duration = latency == null ? null : formatDuration(latency);
  const shown = [duration, model].filter(Boolean).join(" · ");
  const facts = [
    model && [t("Model"), model],
    duration && [t("Time of the model"), duration],
    tokens?.input_tokens != null && [t("Tokens in"), formatCount(tokens.input_tokens)],
    tokens?.output_tokens != null && [t("Tokens out"), formatCount(tokens.output_tokens)],
  ].filter(Boolean);
  if (!facts.length) return null;
  return html`<${Usage} label=${t("What the answer took")} facts=${facts} load=${load} testId="usage">
    ${shown || t("Tokens")}
  <//>`;
}
