/** One exchange: the question, everything that it caused, and how it ended. */

import { formatCosts } from "../format.js";
import { t } from "../i18n.js";
import { rankOf } from "../questions.js";
import { runOf } from "../run.js";
import { sourcesOf, withoutListed } from "../sources.js";
import { askedText, hasGrounds, isSilent, outcome, timeline } from "../timeline.js";
import { Answer } from "./answer.js";
import { html, memo } from "./html.js";
import { lazy } from "./lazy.js";
import { Activity, ErrorNotice } from "./notices.js";
import { Parts } from "./parts.js";
import { Question } from "./question.js";
import { Run } from "./run.js";
import { Thought } from "./thought.js";
import { VariantSwitch } from "./variant-switch.js";
import { Working } from "./working.js";

const Approval = lazy(async () => (await import("./approval.js")).Approval);
const DecideAll = lazy(async () => (await import("./decide-all.js")).DecideAll);
const Interruption = lazy(async () => (await import("./interruption.js")).Interruption);
const Playground = lazy(async () => (await import("./playground.js")).Playground);
const Trust = lazy(async () => (await import("./trust.js")).Trust);

/**
 * `conversation` takes what the user does about the exchange, see Conversation; null: it is only read. `costs` are known
 * once it has ended. `isAuthor`: whether the user may look into their runs.
 */
export const Exchange = memo((given) => {
  const { exchange, costs, said, isLast, isHeard, isAuthor, editing, variants, turned, agentName, conversation } = given;
  const items = timeline(exchange);
  const { before, run, after } = runOf(exchange, withoutListed(exchange, items));
  const ending = outcome(exchange);
  const mayGoOn = isLast && ending && askedText(exchange);
  const mayBranch = ending && conversation?.branch && rankOf(exchange) !== null;
  const cost = formatCosts(costs ?? []);
  const costly = items.findLast(({ kind }) => kind === "final")?.key;
  const costOf = (key) => (key === costly ? cost : "");
  const shown = { exchange, ending, said, mayGoOn, mayBranch, editing, variants, turned, costOf, agentName, conversation };
  const isWorking = Boolean(exchange.progress) || isSilent(exchange, items);
  // The run's line says that it works, unless there is more to say.
  const runSaysIt = run && isHeard && !exchange.stopping && !exchange.kept;
  const isAtWork = exchange.status === "running" && (isWorking || Boolean(run?.running));
  const item = (each) => html`<${Item} key=${each.key} item=${each} shown=${shown} />`;
  return html`<section class="exchange" data-exchange=${exchange.id} data-status=${ending ?? exchange.status}>
    ${
      // In one list: a card that comes to stand behind the run keeps its focus, and what is written in it.
      [
        ...before.map(item),
        run && html`<${Run} key="run" run=${run} exchange=${exchange} isWorking=${isAtWork && runSaysIt} agentName=${agentName} />`,
        ...after.map(item),
      ]
    }
    ${
      exchange.awaiting?.requests.length > 1 &&
      html`<${DecideAll} key=${`decide-${exchange.requests.length}`} exchange=${exchange} onDecide=${(made) => conversation.decide(exchange, made)} />`
    }
    ${isWorking && !runSaysIt && html`<${Working} exchange=${exchange} isHeard=${isHeard} agentName=${agentName} />`}
    <${Ending} ending=${ending} />
    ${
      variants?.ofAnswer &&
      html`<${VariantSwitch}
        ...${variants.ofAnswer}
        name=${t("Variants of this answer")}
        turned=${turned?.of === "answer" ? turned.way : null}
        onTurn=${(sessionId, way) => conversation.turn(sessionId, rankOf(exchange), "answer", way)}
      />`
    }
    ${conversation && ending && hasGrounds(exchange, ending) && html`<${Trust} load=${() => conversation.trust(exchange)} />`}
    ${isAuthor && mayLookInto(exchange, ending) && html`<${Playground} exchange=${exchange} conversation=${conversation} />`}
    ${cost && !costly && html`<p class="cost" data-testid="cost">${cost}</p>`}
  </section>`;
});

function Item({ item, shown }) {
  const { exchange, ending, said, mayGoOn, mayBranch, agentName, conversation } = shown;
  switch (item.kind) {
    case "user":
      return html`<${Question}
        ...${item}
        editing=${shown.editing}
        variants=${shown.variants?.ofQuestion}
        turned=${shown.turned?.of === "question" ? shown.turned.way : null}
        onEdit=${mayBranch ? (begins) => conversation.edit(begins ? exchange : null) : null}
        onSend=${(text) => conversation.branch(exchange, text)}
        onTurn=${(sessionId, way) => conversation.turn(sessionId, rankOf(exchange), "question", way)}
      />`;
    case "continued":
      return html`<p class="activity" data-testid="continued">${t("Continued")}</p>`;
    case "final":
      return html`<${Answer}
        ...${item}
        sources=${sourcesOf(exchange, item)}
        said=${said}
        cost=${shown.costOf(item.key)}
        agentId=${item.metadata.agent_id ?? exchange.agentId}
        conversation=${conversation}
        onRegenerate=${mayBranch ? () => conversation.branch(exchange) : null}
      />`;
    case "thought":
    case "plan":
      return html`<${Thought} ...${item} foldKey=${`${exchange.key}/${item.key}`} />`;
    case "observation":
      return html`<div class="observation" data-testid="observation">
        <${Parts} parts=${item.parts} streaming=${item.streaming} />
      </div>`;
    case "approval":
      return html`<${Approval}
        approval=${item.approval}
        call=${item.call}
        waiting=${exchange.awaiting}
        stopping=${exchange.stopping}
        onDecide=${(decision) => conversation.decide(exchange, [{ request: item.approval.request, decision }])}
      />`;
    case "activity":
      return html`<${Activity} ...${item} agentName=${agentName} />`;
    case "error":
      if (ending === "interrupted") {
        return html`<${Interruption}
          error=${item}
          onContinue=${mayGoOn && exchange.resumable !== false ? () => conversation.resume(exchange) : null}
          onAskAgain=${mayGoOn ? () => conversation.askAgain(exchange) : null}
        />`;
      }
      return html`<${ErrorNotice} error=${item} onRetry=${mayGoOn ? () => conversation.askAgain(exchange) : null} />`;
    default:
      return html`<div class="activity"><${Parts} parts=${item.parts} /></div>`;
  }
}

/** Of a query nothing is kept. */
const mayLookInto = (exchange, ending) =>
  exchange.id && rankOf(exchange) !== null && (ending || exchange.status === "awaiting_human");

const ENDINGS = {
  stopped: t("Stopped"),
  blocked: t("Blocked"),
  interrupted: t("Interrupted"),
  unanswered: t("Ended without an answer"),
};

function Ending({ ending }) {
  if (!ENDINGS[ending]) return null;
  return html`<p class="ending" data-testid="ending">${ENDINGS[ending]}</p>`;
}
