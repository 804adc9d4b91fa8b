/** An answer with what it cites. */

import { AnswerFooter } from "./answer-footer.js";
import { html } from "./html.js";
import { LinkChip, Parts } from "./parts.js";

export function Answer({ parts, metadata, streaming, agentName }) {
  const author = metadata.agent_id ? agentName(metadata.agent_id) : "Answer";
  const saysNothing = !streaming && parts.every(({ type, text }) => type === "text" && !text);
  return html`<article class="answer" data-testid="message-final" data-streaming=${String(Boolean(streaming))}>
    <h2 class="visually-hidden">${author}</h2>
    <${Parts} parts=${parts} streaming=${streaming} />
    ${saysNothing && html`<p class="muted" data-testid="no-answer">The agent ended without an answer.</p>`}
    <${Sources} sources=${metadata.sources} />
    ${!streaming && html`<${AnswerFooter} parts=${parts} metadata=${metadata} />`}
  </article>`;
}

function Sources({ sources }) {
  if (!sources?.length) return null;
  return html`<p class="chips" aria-label="Sources">
    ${sources.map(
      ({ number, title, name, file_name: fileName, url, href }, index) =>
        html`<${LinkChip}
          key=${index}
          label=${String(number ?? index + 1)}
          title=${title ?? name}
          file_name=${fileName}
          href=${href ?? url}
        />`,
    )}
  </p>`;
}
