/** One exchange: the question, everything that it caused, and how it ended. */

import { askedText, isSilent, outcome, timeline } from "../timeline.js";
import { formatCount, formatDuration, formatTime } from "../format.js";
import { CopyButton } from "./copy-button.js";
import { html, memo } from "./html.js";
import { Activity, AwaitingHuman, ErrorNotice, activityText } from "./notices.js";
import { LinkChip, Parts, markdownOf } from "./parts.js";
import { Thought } from "./thought.js";
import { ToolCard } from "./tool-card.js";

export const Exchange = memo(({ exchange, isLast, agentName, onStop, onAskAgain }) => {
  const items = timeline(exchange);
  const ending = outcome(exchange);
  const retry = isLast && ending && askedText(exchange) ? () => onAskAgain(exchange) : null;
  const shown = { agentName, onStop, retry, stopping: exchange.stopping };
  return html`<section class="exchange" data-exchange=${exchange.id} data-status=${ending ?? exchange.status}>
    ${items.map((item) => html`<${Item} key=${item.key} item=${item} shown=${shown} />`)}
    ${(exchange.progress || isSilent(exchange)) && html`<${Working} exchange=${exchange} agentName=${agentName} />`}
    <${Ending} ending=${ending} />
  </section>`;
});

function Item({ item, shown: { agentName, onStop, retry, stopping } }) {
  switch (item.kind) {
    case "user":
      return html`<${Question} ...${item} />`;
    case "final":
      return html`<${Answer} ...${item} agentName=${agentName} />`;
    case "thought":
    case "plan":
      return html`<${Thought} ...${item} />`;
    case "observation":
      return html`<div class="observation" data-testid="observation">
        <${Parts} parts=${item.parts} streaming=${item.streaming} />
      </div>`;
    case "tool":
      return html`<${ToolCard} call=${item.call} result=${item.result} parts=${item.parts} state=${item.state} />`;
    case "activity":
      return html`<${Activity} ...${item} agentName=${agentName} />`;
    case "human":
      return html`<${AwaitingHuman} request=${item.request} onStop=${onStop} stopping=${stopping} />`;
    case "error":
      return html`<${ErrorNotice} content=${item.content} onRetry=${item.retryable ? retry : null} />`;
    default:
      return html`<div class="activity"><${Parts} parts=${item.parts} /></div>`;
  }
}

function Question({ parts, message }) {
  return html`<article class="question" data-testid="message-user" title=${message && formatTime(message.timestamp)}>
    <h2 class="visually-hidden">You</h2>
    ${parts.map((part, index) =>
      part.type === "text" ? html`<p key=${index}>${part.text}</p>` : html`<${Parts} key=${index} parts=${[part]} />`,
    )}
  </article>`;
}

function Answer({ parts, metadata, streaming, agentName }) {
  const author = metadata.agent_id ? agentName(metadata.agent_id) : "Answer";
  return html`<article class="answer" data-testid="message-final" data-streaming=${String(Boolean(streaming))}>
    <h2 class="visually-hidden">${author}</h2>
    <${Parts} parts=${parts} streaming=${streaming} />
    <${Sources} sources=${metadata.sources} />
    ${!streaming && html`<${AnswerFooter} parts=${parts} metadata=${metadata} />`}
  </article>`;
}

function Sources({ sources }) {
  if (!sources?.length) return null;
  return html`<p class="chips" aria-label="Sources">
    ${sources.map(
      ({ title, name, file_name: fileName, url, href }, index) =>
        html`<${LinkChip}
          key=${index}
          label=${String(index + 1)}
          title=${title ?? name}
          file_name=${fileName}
          href=${href ?? url}
        />`,
    )}
  </p>`;
}

const CUT_SHORT = {
  length: "Cut off at the length limit",
  content_filter: "Cut off by the content filter",
};

function AnswerFooter({ parts, metadata }) {
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

function Working({ exchange: { progress, stopping }, agentName }) {
  const text = stopping ? "Stopping…" : progress ? activityText("progress", progress, agentName) : "Working…";
  return html`<p class="working" data-testid=${progress ? "activity" : "working"}>
    <span class="dots"><i /><i /><i /></span><span>${text}</span>
  </p>`;
}

const ENDINGS = {
  stopped: "Stopped",
  blocked: "Blocked",
  interrupted: "Interrupted",
  unanswered: "Ended without an answer",
};

function Ending({ ending }) {
  if (!ENDINGS[ending]) return null;
  return html`<p class="ending" data-testid="ending">${ENDINGS[ending]}</p>`;
}
