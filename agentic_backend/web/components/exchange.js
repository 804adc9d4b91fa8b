/** One exchange: the question, everything that it caused, and how it ended. */

import { formatCosts } from "../format.js";
import { askedText, hasGrounds, isSilent, outcome, timeline } from "../timeline.js";
import { Answer } from "./answer.js";
import { Approval } from "./approval.js";
import { DecideAll } from "./decide-all.js";
import { html, memo } from "./html.js";
import { Interruption } from "./interruption.js";
import { Activity, ErrorNotice } from "./notices.js";
import { Parts } from "./parts.js";
import { Question } from "./question.js";
import { Thought } from "./thought.js";
import { ToolCard } from "./tool-card.js";
import { Trust } from "./trust.js";
import { Working } from "./working.js";

/** `conversation` takes what the user does about the exchange; see Conversation. `costs` are known once it has ended. */
export const Exchange = memo(({ exchange, costs, isLast, isHeard, agentName, conversation }) => {
  const items = timeline(exchange);
  const ending = outcome(exchange);
  const mayGoOn = isLast && ending && askedText(exchange);
  const shown = { exchange, ending, mayGoOn, agentName, conversation };
  return html`<section class="exchange" data-exchange=${exchange.id} data-status=${ending ?? exchange.status}>
    ${items.map((item) => html`<${Item} key=${item.key} item=${item} shown=${shown} />`)}
    <${DecideAll} exchange=${exchange} onDecide=${(made) => conversation.decide(exchange, made)} />
    ${(exchange.progress || isSilent(exchange)) && html`<${Working} exchange=${exchange} isHeard=${isHeard} agentName=${agentName} />`}
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
