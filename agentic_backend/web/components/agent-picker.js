/** Who answers next, and the list to choose somebody else from: favourites first, with a search. */

import { isComposing } from "../composing.js";
import { t } from "../i18n.js";
import { AgentMark } from "./agent-mark.js";
import { html, useState } from "./html.js";
import { Icon, IconButton } from "./icons.js";
import { usePopover } from "./popover.js";

/** With fewer agents one sees them all. */
const SEARCHED_FROM = 6;

/** `chosenId` is the agent that is asked next; `onChoose` gets another one's id. */
export function AgentPicker({ agents, chosenId, favourites, onChoose, onFavourite, testId = "agent-picker" }) {
  const popover = usePopover({ onShown: (panel) => first(panel).focus() });
  const chosen = agents.find(({ id }) => id === chosenId) ?? { id: chosenId, name: chosenId };
  const keyed = (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    popover.open();
  };
  const choose = (id) => {
    popover.close();
    onChoose(id);
  };
  return html`<button
      type="button"
      class="agent-picker"
      aria-haspopup="dialog"
      title=${chosen.description || undefined}
      data-testid=${testId}
      data-agent=${chosenId}
      onKeyDown=${keyed}
      ...${popover.button}
    >
      <${AgentMark} id=${chosenId} />
      <span class="visually-hidden">${t("Agent")}: </span>
      <span class="agent-name" data-testid="session-agent">${chosen.name}</span>
      <${Icon} name="down-small" />
    </button>
    ${
      popover.isOpen &&
      html`<${Panel}
        popover=${popover}
        agents=${agents}
        chosenId=${chosenId}
        favourites=${favourites}
        onChoose=${choose}
        onFavourite=${onFavourite}
      />`
    }`;
}

function Panel({ popover, agents, chosenId, favourites, onChoose, onFavourite }) {
  const [query, setQuery] = useState("");
  const found = agents.filter((agent) => matches(agent, query));
  const groups = [
    [t("Favourites"), found.filter(({ id }) => favourites.includes(id))],
    [t("All agents"), found.filter(({ id }) => !favourites.includes(id))],
  ].filter(([, members]) => members.length > 0);
  const keyed = (event) => {
    if (isComposing(event)) return;
    const panel = popover.panel.ref.current;
    const rows = [...panel.querySelectorAll(".agent-option")];
    const index = rows.indexOf(document.activeElement);
    if (event.key === "Enter" && event.target.matches("input")) rows[0]?.click();
    const next = target(event, panel, rows, index);
    if (!next) return;
    event.preventDefault();
    next.focus();
  };
  return html`<div class="agents" role="dialog" aria-label=${t("Agents")} onKeyDown=${keyed} ...${popover.panel}>
    ${
      agents.length >= SEARCHED_FROM &&
      html`<input
        type="search"
        class="agents-search"
        placeholder=${t("Search agents")}
        aria-label=${t("Search agents")}
        data-testid="agent-search"
        maxlength="100"
        value=${query}
        onInput=${({ target: input }) => setQuery(input.value)}
      />`
    }
    ${groups.map(
      ([name, members]) =>
        html`<section key=${name} aria-label=${name}>
          ${groups.length > 1 && html`<h3>${name}</h3>`}
          <ul>
            ${members.map(
              (agent) =>
                html`<${Row}
                  key=${agent.id}
                  agent=${agent}
                  isChosen=${agent.id === chosenId}
                  isFavourite=${favourites.includes(agent.id)}
                  onChoose=${onChoose}
                  onFavourite=${onFavourite}
                />`,
            )}
          </ul>
        </section>`,
    )}
    ${groups.length === 0 && html`<p class="muted" role="status">${t("Nothing found.")}</p>`}
  </div>`;
}

function Row({ agent: { id, name, description }, isChosen, isFavourite, onChoose, onFavourite }) {
  return html`<li>
    <button
      type="button"
      class="agent-option"
      aria-current=${isChosen ? "true" : undefined}
      data-testid="agent-option"
      data-agent=${id}
      onClick=${() => onChoose(id)}
    >
      <${AgentMark} id=${id} />
      <span class="agent-words">
        <span class="agent-name">${name}</span>
        ${description && html`<span class="agent-description">${description}</span>`}
      </span>
      ${isChosen && html`<${Icon} name="check" />`}
    </button>
    <${IconButton}
      name=${isFavourite ? "star-full" : "star"}
      label=${t("Favourite: {name}", { name })}
      aria-pressed=${String(isFavourite)}
      data-testid="agent-favourite"
      onClick=${() => onFavourite(id)}
    />
  </li>`;
}

/** Where the focus goes first: to the search, else to the one that is chosen. */
const first = (panel) =>
  panel.querySelector("input") ?? panel.querySelector("[aria-current]") ?? panel.querySelector("button");

const matches = ({ name, description, tags = [] }, query) =>
  query
    .toLocaleLowerCase()
    .split(/\s+/)
    .every((word) => [name, description, ...tags].join(" ").toLocaleLowerCase().includes(word));

/** The row that a key leads to, or nothing. */
function target({ key, target: from }, panel, rows, index) {
  switch (key) {
    case "ArrowDown":
      return rows[Math.min(index + 1, rows.length - 1)];
    case "ArrowUp":
      return index > 0 ? rows[index - 1] : panel.querySelector("input");
    case "Home":
      return from.matches("input") ? undefined : rows[0];
    case "End":
      return from.matches("input") ? undefined : rows.at(-1);
    default:
      return undefined;
  }
}
