/**
 * The exchanges of the open conversation. Those far from the view have only their place in the page (see Slot); earlier
 * ones are read as the view comes near its beginning.
 */

import { isOngoing } from "../client/transcript-exchange.js";
import { ongoing } from "../client/transcript.js";
import { t } from "../i18n.js";
import { rankOf } from "../questions.js";
import { apart, variantsOf } from "../variants.js";
import { Announcer } from "./announcer.js";
import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { useScrolledView } from "./scrolled-view.js";
import { Nearness, Slot } from "./slot.js";

/** How many of the last exchanges are filled at once when a conversation is opened. */
const FIRST_FILLED = 2;
const MARKED_MS = 3_000;
const NOTE_MS = 8_000;

export function Messages({ open, branches: { family, asked }, costs, said, isHeard, isAuthor, agentName, actions: { conversation } }) {
  const { sessionId, transcript, editing, turned, marked } = open;
  const { exchanges, firstRank } = transcript;
  const variants = useMemo(() => {
    const found = [...variantsOf(family, sessionId)];
    return new Map(found.map(([rank, variant]) => [rank, apart(variant, rank, asked)]));
  }, [family, asked, sessionId]);
  const question = exchanges.findLast(({ asked }) => asked !== null)?.key;
  const { view, content, atEnd, toEnd, goTo } = useScrolledView(sessionId, question, turned);
  const nearness = useNearness(view);
  const heights = useHeights(sessionId);
  useMarked(view, transcript, marked, goTo);
  return html`<div
      class="messages"
      ref=${view}
      tabindex="0"
      role="region"
      aria-label=${t("Messages")}
      data-testid="messages"
    >
      <div class="column" ref=${content}>
        ${firstRank > 0 && html`<${Earlier} key="earlier" nearness=${nearness} onLoad=${() => conversation.loadEarlier()} />`}
        ${exchanges.map(
          (exchange, index) => html`<${Slot}
            key=${exchange.key}
            nearness=${nearness}
            heights=${heights}
            isPinned=${index >= exchanges.length - FIRST_FILLED || isOngoing(exchange) || editing === exchange.key || hasRank(exchange, marked?.rank)}
            exchange=${exchange}
            costs=${costs[exchange.id]}
            said=${said}
            isLast=${index === exchanges.length - 1}
            isHeard=${isHeard || !isOngoing(exchange)}
            isAuthor=${isAuthor}
            agentName=${agentName}
            editing=${editing === exchange.key}
            variants=${variants.get(rankOf(exchange))}
            turned=${turned?.rank === rankOf(exchange) ? turned : null}
            conversation=${conversation}
          />`,
        )}
      </div>
    </div>
    ${
      !atEnd &&
      html`<button
        type="button"
        class="to-latest"
        data-testid="jump-to-latest"
        aria-label=${t("Jump to latest")}
        title=${t("Jump to latest")}
        onClick=${toEnd}
      >
      <${Icon} name="down" />
    </button>`
    }
    <${FindNote} isPartial=${firstRank > 0 || exchanges.length > FIRST_FILLED} />
    <${Announcer} exchange=${exchanges.at(-1)} busy=${Boolean(ongoing(transcript))} />`;
}

/** Made with the view, which is there once this component is. */
function useNearness(view) {
  const made = useRef(null);
  return useCallback(() => (made.current ??= new Nearness(view.current)), []);
}

/** The measured heights, of this session. */
function useHeights(sessionId) {
  const kept = useRef({ sessionId, heights: new Map() });
  if (kept.current.sessionId !== sessionId) kept.current = { sessionId, heights: new Map() };
  return kept.current.heights;
}

/** What comes before is read when the view comes near; the button is for who has no view. */
function Earlier({ nearness, onLoad }) {
  const button = useRef(null);
  const isBusy = useRef(false);
  const [loads, setLoads] = useState(0);
  const load = async () => {
    if (isBusy.current) return;
    isBusy.current = true;
    const isLoaded = await onLoad();
    isBusy.current = false;
    // What was read may not fill the view. After a failure the button is the way on.
    if (isLoaded) setLoads((count) => count + 1);
  };
  useEffect(() => nearness().watch(button.current, (isNear) => isNear && load()), [loads]);
  return html`<button type="button" class="button earlier" data-testid="load-earlier" ref=${button} onClick=${load}>
    ${t("Earlier messages")}
  </button>`;
}

const hasRank = ({ messages }, rank) =>
  rank !== undefined && messages.length > 0 && messages[0].rank <= rank && rank <= messages.at(-1).rank;

/** Brings the message that is marked into view, and shows for a moment which one it is. */
function useMarked(view, transcript, marked, goTo) {
  const shown = useRef(null);
  useLayoutEffect(() => {
    const exchange = marked && marked !== shown.current && transcript.exchanges.find((each) => hasRank(each, marked.rank));
    if (!exchange) return;
    shown.current = marked;
    const section = view.current.querySelector(`[data-exchange="${CSS.escape(exchange.id)}"]`);
    const message = exchange.messages.find(({ rank }) => rank === marked.rank) ?? exchange.messages[0];
    const part = message.role === "user" ? ".question" : message.channel === "final" ? ".answer" : ".run";
    const target = section.querySelector(part) ?? section;
    goTo(target);
    target.classList.add("hit");
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
    setTimeout(() => target.classList.remove("hit"), MARKED_MS);
  });
}

/** The browser's own search finds only what is in the page. */
function FindNote({ isPartial }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const pressed = ({ key, ctrlKey, metaKey }) => {
      if ((ctrlKey || metaKey) && key === "f" && isPartial) setShown(true);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [isPartial]);
  useEffect(() => {
    const timer = isShown && setTimeout(() => setShown(false), NOTE_MS);
    return () => clearTimeout(timer);
  }, [isShown]);
  return html`<p class="find-note" role="status" data-testid="find-note" hidden=${!isShown}>
    ${isShown && t("The browser finds only what is near. Ctrl+K searches all conversations.")}
  </p>`;
}
