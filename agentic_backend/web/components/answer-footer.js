/** What can be done with an answer, what the user says of it, and what it took. */

import { formatCount, formatDuration } from "../format.js";
import { t } from "../i18n.js";
import { CopyButton } from "./copy-button.js";
import { html } from "./html.js";
import { IconButton } from "./icons.js";
import { markdownOf } from "./parts.js";
import { ReadAloudButton, canReadAloud } from "./read-aloud-button.js";
import { Rating } from "./rating.js";
import { htmlOf } from "./rich-text.js";
import { Usage } from "./usage.js";

const CUT_SHORT = {
  length: t("Cut off at the length limit"),
  content_filter: t("Cut off by the content filter"),
};

/**
 * `cost` is that of the exchange, as a text. `conversation` is null where nothing can be said of the answer: in a query, and in what somebody else shares.
 * `onRegenerate` (null: it can't be) asks its question again.
 */
export function AnswerFooter({ message, said, cost, conversation, onRegenerate }) {
  const { parts, rank, session_id: sessionId, exchange_id: exchangeId } = message;
  const metadata = message.metadata ?? {};
  const { feedback } = conversation ?? {};
  const isKept = Boolean(feedback && sessionId);
  const reason = CUT_SHORT[metadata.finish_reason];
  return html`<footer class="answer-footer">
    <${CopyButton}
      text=${markdownOf(parts)}
      htmlOf=${htmlOf}
      label=${t("Copy the answer")}
      testId="copy-answer"
    />
    ${canReadAloud && html`<${ReadAloudButton} text=${markdownOf(parts)} htmlOf=${htmlOf} />`}
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
    <${Took} metadata=${metadata} cost=${cost} load=${isKept ? () => conversation.api.usage({ exchangeId }) : null} />
    ${reason && html`<span class="muted" data-testid="cut-short">${reason}</span>`}
  </footer>`;
}

/** Models and tokens are known of the last call only; `load` gives them of all calls. */
function Took({ metadata: { token_usage: tokens, latency_ms: latency, model }, cost, load }) {
  const duration = latency == null ? null : formatDuration(latency);
  const shown = [duration, model, cost && html`<span data-testid="cost">${cost}</span>`].filter(Boolean);
  const ofLastCall = [
    model && [t("Model"), model],
    tokens?.input_tokens != null && [t("Tokens in"), formatCount(tokens.input_tokens)],
    tokens?.output_tokens != null && [t("Tokens out"), formatCount(tokens.output_tokens)],
  ];
  const facts = [duration && [t("Time of the model"), duration], ...ofLastCall].filter(Boolean);
  if (!facts.length && !cost) return null;
  return html`<${Usage}
    label=${t("What the answer took")}
    facts=${load ? facts.slice(0, duration ? 1 : 0) : facts}
    load=${load}
    testId="usage"
  >
    ${shown.length ? shown.map((each, index) => [index > 0 && " · ", each]) : t("Tokens")}
  <//>`;
}
