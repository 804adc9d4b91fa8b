/** An answer, the sources that its marks lead to, and what can be done with it. */

import { citationClicked, linkCitations } from "../citations.js";
import { t } from "../i18n.js";
import { isCitation } from "../sources.js";
import { AgentMark, useAgent } from "./agent-mark.js";
import { AnswerFooter } from "./answer-footer.js";
import { html, useId } from "./html.js";
import { Parts } from "./parts.js";
import { Sources } from "./sources.js";

export function Answer(properties) {
  const { message, parts, streaming, sources, said, cost, agentId, conversation, onRegenerate } = properties;
  const saysNothing = !streaming && parts.every(({ type, text }) => type === "text" && !text);
  const id = useId();
  const idOf = (number) => `${id}-source-${number}`;
  const link = sources.length ? (root) => linkCitations(root, sources, idOf) : null;
  return html`<article
    class="answer"
    data-testid="message-final"
    data-streaming=${String(Boolean(streaming))}
    onClick=${citationClicked}
  >
    <${Author} agentId=${agentId} />
    <${Parts} parts=${parts.filter((part) => !isCitation(part))} streaming=${streaming} onShown=${link} />
    ${saysNothing && html`<p class="muted" data-testid="no-answer">${t("The agent ended without an answer.")}</p>`}
    <${Sources} sources=${sources} idOf=${idOf} />
    ${
      !streaming &&
      html`<${AnswerFooter}
        message=${message}
        said=${said}
        cost=${cost}
        conversation=${conversation}
        onRegenerate=${onRegenerate}
      />`
    }
  </article>`;
}

/** `agentId` is not known of every answer. */
function Author({ agentId }) {
  const { name } = useAgent(agentId);
  if (!agentId) return html`<h2 class="visually-hidden">${t("The answer")}</h2>`;
  return html`<div class="author" data-testid="author">
    <${AgentMark} id=${agentId} />
    <h2>${name}</h2>
  </div>`;
}
