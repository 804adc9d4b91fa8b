/** One exchange: the question, everything that it caused, and how it ended. */

import { askedText, hasGrounds, isSilent, outcome, timeline } from "../timeline.js";
import { formatAhead, formatCosts, formatCount, formatDuration, formatTime } from "../format.js";
import { Approval } from "./approval.js";
import { ApproveAll } from "./approve-all.js";
import { useNow } from "./clock.js";
import { CopyButton } from "./copy-button.js";
import { html, memo } from "./html.js";
import { Interruption } from "./interruption.js";
import { Activity, ErrorNotice, activityText } from "./notices.js";
import { LinkChip, Parts, markdownOf } from "./parts.js";
import { Thought } from "./thought.js";
import { ToolCard } from "./tool-card.js";
import { Trust } from "./trust.js";

/** `conversation` takes what the user does about the exchange; see Conversation. `costs` are known once it has ended. */
export const Exchange = memo(({ exchange, costs, isLast, agentName, conversation }) => {
  const items = timeline(exchange);
  const ending = outcome(exchange);
  const mayGoOn = isLast && ending && askedText(exchange);
  const shown = { exchange, ending, mayGoOn, agentName, conversation };
  return html`<section class="exchange" data-exchange=${exchange.id} data-status=${ending ?? exchange.status}>
    ${items.map((item) => html`<${Item} key=${item.key} item=${item} shown=${shown} />`)}
    <${ApproveAll} exchange=${exchange} onDecide=${(made) => conversation.decide(exchange, made)} />
    ${(exchange.progress || isSilent(exchange)) && html`<${Working} exchange=${exchange} agentName=${agentName} />`}
    <${Ending} ending=${ending} />
    ${ending && hasGrounds(exchange, ending) && html`<${Trust} load=${() => conversation.trust(exchange)} />`}
    ${costs?.length > 0 && html`<p class="cost" data-testid="cost">${formatCosts(costs)}</p>`}
  </section>`;
});

function Item({ item, shown: { exchange, ending, mayGoOn, agentName, conversation } }) {
  switch (item.kind) {
    case "user":
      return html`<${Question} ...${item} />`;
    case "continued":
      return html`<p class="activity" data-testid="continued">Continued</p>`;
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
      return html`<${ToolCard}
        call=${item.call}
        result=${item.result}
        parts=${item.parts}
        state=${item.state}
        decision=${item.decision}
      />`;
    case "approval":
      return html`<${Approval}
        approval=${item.approval}
        waiting=${exchange.awaiting}
        stopping=${exchange.stopping}
        onDecide=${(decision) => conversation.decide(exchange, [{ request: item.approval.request, decision }])}
      />`;
    case "activity":
      return html`<${Activity} ...${item} agentName=${agentName} />`;
    case "error":
      if (ending === "interrupted") {
        return html`<${Interruption}
          content=${item.content}
          onContinue=${mayGoOn ? () => conversation.resume(exchange) : null}
          onRewrite=${() => conversation.rewrite(exchange)}
        />`;
      }
      return html`<${ErrorNotice}
        content=${item.content}
        detail=${item.detail}
        onRetry=${mayGoOn && item.retryable ? () => conversation.askAgain(exchange) : null}
      />`;
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

function Working({ exchange: { progress, stopping, kept }, agentName }) {
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
