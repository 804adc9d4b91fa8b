/** The exchanges of the open conversation. The view stays at the newest text as long as the user is there. */

import { outcome, textOf, timeline } from "../timeline.js";
import { isOngoing } from "../client/transcript-exchange.js";
import { ongoing } from "../client/transcript.js";
import { t } from "../i18n.js";
import { rankOf } from "../questions.js";
import { variantsOf } from "../variants.js";
import { Exchange } from "./exchange.js";
import { html, useCallback, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";

/** This near to its end the view counts as being there, in pixels. */
const NEAR = 80;

export function Messages({ open, family, costs, said, isHeard, agentName, actions: { conversation } }) {
  const { sessionId, transcript, editing, turned } = open;
  const { exchanges, firstRank } = transcript;
  const variants = useMemo(() => variantsOf(family, sessionId), [family, sessionId]);
  const { view, content, atEnd, toEnd } = useFollowedEnd(
    sessionId,
    exchanges.findLast(({ asked }) => asked !== null)?.key,
    turned,
  );

  const loadEarlier = async () => {
    const below = view.current.scrollHeight - view.current.scrollTop;
    await conversation.loadEarlier();
    requestAnimationFrame(() => (view.current.scrollTop = view.current.scrollHeight - below));
  };
  return html`<div class="messages" ref=${view} tabindex="0" role="region" aria-label="Messages" data-testid="messages">
      <div class="column" ref=${content}>
        ${
          firstRank > 0 &&
          html`<button type="button" class="button earlier" data-testid="load-earlier" onClick=${loadEarlier}>
            Earlier messages
          </button>`
        }
        ${exchanges.map(
          (exchange, index) => html`<${Exchange}
            key=${exchange.key}
            exchange=${exchange}
            costs=${costs[exchange.id]}
            said=${said}
            isLast=${index === exchanges.length - 1}
            isHeard=${isHeard || !isOngoing(exchange)}
            agentName=${agentName}
            editing=${editing === exchange.key}
            variants=${variants.get(rankOf(exchange))}
            turned=${turned?.rank === rankOf(exchange) ? turned.way : null}
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
        aria-label="Jump to latest"
        title="Jump to latest"
        onClick=${toEnd}
      >
      <${Icon} name="down" />
    </button>`
    }
    <${Announcer} exchange=${exchanges.at(-1)} busy=${Boolean(ongoing(transcript))} />`;
}

/**
 * Keeps `view` at its end while `content` grows, until the user scrolls up. Another session, or a question asked on
 * this page, brings it back there; who has `turned` to another variant stays where that is.
 */
function useFollowedEnd(sessionId, question, turned) {
  const view = useRef(null);
  const content = useRef(null);
  const follows = useRef(true);
  const lastTop = useRef(0);
  const [atEnd, setAtEnd] = useState(true);

  const toEnd = useCallback(() => {
    follows.current = true;
    view.current.scrollTop = view.current.scrollHeight;
    setAtEnd(true);
  }, []);

  useLayoutEffect(() => {
    const element = view.current;
    const scrolled = () => {
      const near = element.scrollHeight - element.scrollTop - element.clientHeight <= NEAR;
      // Content that grows also moves the end away; only a move upwards is the user's.
      if (near) follows.current = true;
      else if (element.scrollTop < lastTop.current) follows.current = false;
      lastTop.current = element.scrollTop;
      setAtEnd(near || follows.current);
    };
    const grown = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    grown.observe(content.current);
    grown.observe(element);
    // Who unfolds something reads it: what grows then doesn't move.
    const unfolded = ({ target }) => {
      if (target.closest("[aria-expanded], summary, .citation, .trust .chip")) follows.current = false;
    };
    element.addEventListener("click", unfolded, { capture: true });
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      grown.disconnect();
      element.removeEventListener("click", unfolded, { capture: true });
      element.removeEventListener("scroll", scrolled);
    };
  }, []);
  useLayoutEffect(() => {
    if (turned) follows.current = false;
    else toEnd();
  }, [sessionId, question]);
  return { view, content, atEnd, toEnd };
}

/** A longer text would be read for minutes, and can't be stopped without losing the place. */
const LONGEST_ANNOUNCEMENT = 200;

/** Says to screen readers that the agent works or waits, and how its answer begins when it is there. */
function Announcer({ exchange, busy }) {
  const heard = useRef(null);
  if (exchange && isOngoing(exchange)) heard.current = exchange.key;
  const text = busy
    ? exchange?.status === "awaiting_human"
      ? t("The agent waits for your decision.")
      : t("The agent is working.")
    : exchange && heard.current === exchange.key
      ? spokenAnswer(exchange)
      : "";
  return html`<div class="visually-hidden" aria-live="polite" data-testid="announcer">${text}</div>`;
}

function spokenAnswer(exchange) {
  const answer = timeline(exchange).findLast(({ kind }) => kind === "final");
  const text = answer ? textOf(answer.parts).replace(/[*_`#>|]+/g, "").replace(/\s+/g, " ").trim() : "";
  const began = text.length > LONGEST_ANNOUNCEMENT ? `${text.slice(0, LONGEST_ANNOUNCEMENT)}…` : text;
  const ending = outcome(exchange) === "stopped" ? t("Stopped.") : "";
  return [began, ending].join(" ").trim() || t("The agent ended without an answer.");
}
