/** The search in all conversations: what is found is listed with the words marked, and opened by arrow keys and Enter. */

import { isComposing } from "../composing.js";
import { t } from "../i18n.js";
import { clickedHere, sessionHref } from "../location.js";
import { familyOf } from "../sessions.js";
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";

const LIST = "search-results";

export function SearchBox({ search, going, actions }) {
  const input = useRef(null);
  const [place, setPlace] = useState(0);
  const places = useMemo(() => placesIn(search.found ?? [], going), [search.found, going]);
  const isOpen = search.query.trim() !== "";
  useEffect(() => setPlace(0), [search.query]);
  useEffect(() => {
    document.getElementById(optionId(place))?.scrollIntoView({ block: "nearest" });
  }, [place]);

  const open = ({ session, rank }) => {
    actions.openSession(session.id, rank);
    actions.sidebar.closeDrawer();
  };
  const clear = () => {
    actions.search.clear();
    input.current.focus();
  };
  const keyed = (event) => {
    if (!isOpen || isComposing(event)) return;
    const last = places.length - 1;
    if (event.key === "ArrowDown") setPlace(Math.min(place + 1, last));
    else if (event.key === "ArrowUp") setPlace(Math.max(place - 1, 0));
    else if (event.key === "Enter" && places[place]) open(places[place]);
    else if (event.key === "Escape") clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="search">
      <${Icon} name="search" />
      <input
        ref=${input}
        id="session-search"
        type="text"
        inputmode="search"
        role="combobox"
        autocomplete="off"
        aria-autocomplete="list"
        aria-expanded=${String(isOpen)}
        aria-controls=${LIST}
        aria-activedescendant=${isOpen && places[place] ? optionId(place) : undefined}
        placeholder=${t("Search")}
        aria-label=${t("Search conversations")}
        data-testid="session-search"
        maxlength="200"
        value=${search.query}
        onInput=${({ target }) => actions.search.search(target.value)}
        onKeyDown=${keyed}
      />
      ${search.query && html`<${IconButton} name="close" label=${t("Clear the search")} onClick=${clear} />`}
    </div>
    ${isOpen && html`<${Results} search=${search} places=${places} place=${place} actions=${actions} onOpen=${open} />`}`;
}

function Results({ search: { found, cursor, loading, error }, places, place, actions, onOpen }) {
  const text = error ?? (loading && !found ? t("Searching…") : places.length === 0 ? t("Nothing found.") : null);
  return html`<div class="session-list search-list">
    <div class="search-results" id=${LIST} role="listbox" aria-label=${t("Found conversations")}>
      ${places.map(
        (each, index) => html`<${Option}
          key=${each.key}
          each=${each}
          id=${optionId(index)}
          isChosen=${index === place}
          onOpen=${() => onOpen(each)}
        />`,
      )}
    </div>
    <p class=${text ? "list-end muted" : "visually-hidden"} role="status" data-testid="search-state">${text ?? ""}</p>
    ${
      cursor &&
      html`<div class="list-end">
        <button type="button" class="button" data-testid="more-found" onClick=${() => actions.search.more()}>
          ${loading ? t("Loading…") : t("More")}
        </button>
      </div>`
    }
  </div>`;
}

/** A session, or a place in it where the words were said. The keys stay in the field: a click is enough here. */
function Option({ each: { session, title, snippet, rank }, id, isChosen, onOpen }) {
  const isHit = snippet !== null;
  return html`<a
    class=${isHit ? "search-option snippet" : "search-option"}
    id=${id}
    role="option"
    aria-selected=${String(isChosen)}
    data-testid=${isHit ? "search-hit" : "search-result"}
    data-session=${session.id}
    data-rank=${rank ?? undefined}
    tabindex="-1"
    href=${sessionHref(session.id, rank)}
    onClick=${clickedHere(onOpen)}
  >
    <span dir="auto"><${Pieces} pieces=${snippet ?? title} /></span>
    ${!isHit && session.archived && html`<span class="tag">${t("Archived")}</span>`}
  </a>`;
}

const Pieces = ({ pieces }) => pieces.map(({ text, match }) => (match ? html`<mark>${text}</mark>` : text));

const optionId = (place) => `search-option-${place}`;

/** What the arrow keys move through: each session, and behind it its hits. Of a family, more than titles only once. */
function placesIn(found, going) {
  const families = new Set();
  return found.flatMap(({ session, title, hits }) => {
    const familyId = familyOf(session);
    if (going.has(familyId) || (hits.length === 0 && families.has(familyId))) return [];
    families.add(familyId);
    return [
      { key: session.id, session, title, snippet: null, rank: hits[0]?.rank ?? null },
      ...hits.map(({ rank, snippet }) => ({ key: `${session.id}/${rank}`, session, snippet, rank })),
    ];
  });
}
