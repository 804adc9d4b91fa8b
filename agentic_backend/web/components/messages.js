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
  const { filled, note } = useWhole({ content, sessionId, question, firstRank, conversation });
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
        ${firstRank > 0 && html`<p class="in-print">${t("Earlier messages were not loaded, and are not in this print.")}</p>`}
        ${firstRank > 0 && html`<${Earlier} key="earlier" nearness=${nearness} onLoad=${() => conversation.loadEarlier()} />`}
        ${exchanges.map(
          (exchange, index) => html`<${Slot}
            key=${exchange.key}
            nearness=${nearness}
            heights=${heights}
            isPinned=${index >= exchanges.length - filled || isOngoing(exchange) || editing === exchange.key || hasRank(exchange, marked?.rank)}
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
    <p class="whole-note" role="status" data-testid="whole-note" hidden=${!note}>${note}</p>
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

const LOADING = t("The whole conversation is being loaded…");
const PARTIAL = t("Earlier messages could not be loaded, and are missing here. Ctrl+K searches all conversations.");

/**
 * The browser prints, finds and selects what is in the page: its keys for that bring all of the conversation there.
 * `filled` is how many of the last exchanges are, `note` what is to be known of it, or null.
 */
function useWhole({ content, sessionId, question, firstRank, conversation }) {
  const [filled, setFilled] = useState(FIRST_FILLED);
  const [note, setNote] = useState(null);
  const isThere = useRef(false);
  isThere.current = firstRank === 0 && filled === Infinity;
  useLayoutEffect(() => {
    let isOpen = true;
    const end = () => {
      setFilled(FIRST_FILLED);
      setNote(null);
    };
    const pressed = async (event) => {
      const does = wholeOf(event);
      if (!does) return;
      if (does !== "find") event.preventDefault();
      if (!isThere.current) setNote(LOADING);
      const isWhole = await conversation.loadAll();
      if (!isOpen) return;
      setFilled(Infinity);
      await new Promise(requestAnimationFrame);
      if (!isOpen) return;
      unfoldTexts(content.current);
      await new Promise(requestAnimationFrame);
      setNote(isWhole ? null : PARTIAL);
      if (does === "print") print();
      if (does === "select") getSelection().selectAllChildren(content.current);
    };
    addEventListener("keydown", pressed);
    addEventListener("afterprint", end);
    return () => {
      isOpen = false;
      end();
      removeEventListener("keydown", pressed);
      removeEventListener("afterprint", end);
    };
  }, [sessionId, question]);
  useEffect(() => {
    const timer = note === PARTIAL && setTimeout(() => setNote(null), NOTE_MS);
    return () => clearTimeout(timer);
  }, [note]);
  return { filled, note };
}

function unfoldTexts(content) {
  const { activeElement } = document;
  for (const button of content.querySelectorAll(".unfold-code, .unfold[aria-expanded=false]")) button.click();
  activeElement?.focus({ preventScroll: true });
}

const WHOLE = { a: "select", f: "find", p: "print" };

/** What the browser is about to do with all of the page, if it is that; in a field it selects what is written there. */
function wholeOf({ key, ctrlKey, metaKey, shiftKey, altKey, target, defaultPrevented }) {
  const does = (ctrlKey || metaKey) && !shiftKey && !altKey && !defaultPrevented ? WHOLE[key.toLowerCase()] : undefined;
  const isElsewhere = document.querySelector("dialog[open]") || target.closest?.("input, textarea, select");
  return does === "select" && isElsewhere ? undefined : does;
}
