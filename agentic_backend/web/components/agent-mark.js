/** An agent's mark: its icon, or the first letters of its name in a colour that follows from its id. */

import { createContext, html, useContext } from "./html.js";

/** The agents that are known, for all that is shown of one. */
export const KnownAgents = createContext([]);

const COLOURS = 8;

/** `{id, name, …}` of an agent, also of one that the user may not ask. */
export function useAgent(id) {
  const agents = useContext(KnownAgents);
  return agents.find((agent) => agent.id === id) ?? { id, name: id };
}

export function AgentMark({ id, large = false }) {
  const { name, icon } = useAgent(id);
  const look = icon ? "icon-mark" : `mark-${colourOf(id)}`;
  return html`<span class=${`agent-mark ${look}${large ? " large" : ""}`} aria-hidden="true">
    ${icon ?? monogram(name)}
  </span>`;
}

/** The first letters of the first two words. */
function monogram(name) {
  const words = name.match(/[\p{L}\p{N}]+/gu) ?? [];
  const letters = words.slice(0, 2).map((word) => [...word][0]);
  return letters.join("").toLocaleUpperCase() || "?";
}

function colourOf(id) {
  const sum = [...id].reduce((hash, character) => (hash * 31 + character.codePointAt(0)) % 65_521, 7);
  return sum % COLOURS;
}
