/** An answer, the sources that its marks lead to, and what can be done with it. */

import { citationClicked, linkCitations, sourceAt } from "../citations.js";
import { t } from "../i18n.js";
import { isCitation } from "../sources.js";
import { AgentMark, useAgent } from "./agent-mark.js";
import { AnswerFooter } from "./answer-footer.js";
import { html, useContext, useId } from "./html.js";
import { PanelsContext, Parts } from "./parts.js";
import { Sources } from "./sources.js";

export function Answer(properties) {
  const { message, parts, streaming, sources, said, cost, agentId, conversation, onRegenerate } = properties;
  const saysNothing = !streaming && parts.every(({ type, text }) => type === "text" && !text);
  const id = useId();
  const idOf = (number) => `${id}-source-${number}`;
  const link = sources.length ? (root) => linkCitations(root, sources, idOf) : null;
  const panels = useContext(PanelsContext);
  const isOpened = (source) => Boolean(panels?.forLink(source));
  /** What an event is about, of what opens in a panel. */
  const openedAt = ({ target }) => {
    const found = sourceAt(target, sources, idOf);
    return found && isOpened(found.source) ? found : null;
  };
  const clicked = (event) => {
    const found = openedAt(event);
    if (!found) return citationClicked(event);
    event.preventDefault();
    panels.openLink(found.source, found.link);
  };
  const restsOn = (event) => {
    const found = openedAt(event);
    if (found) panels.previewLink(found.source, found.link);
  };
  return html`<article
    class="answer"
    data-testid="message-final"
    data-streaming=${String(Boolean(streaming))}
    onClick=${clicked}
    onPointerOver=${(event) => event.pointerType !== "touch" && restsOn(event)}
    onFocusIn=${(event) => event.target.matches(":focus-visible") && restsOn(event)}
  >
    <${Author} agentId=${agentId} />
    <${Parts} parts=${parts.filter((part) => !isCitation(part))} streaming=${streaming} onShown=${link} />
    ${saysNothing && html`<p class="muted" data-testid="no-answer">${t("The agent ended without an answer.")}</p>`}
    <${Sources} sources=${sources} idOf=${idOf} isOpened=${isOpened} />
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
