/**
 * The agents that the user may ask, which one a new conversation asks, and the user's favourites.
 *
 * Owns `state.agents`, `agentsError`, `chatProfiles`, `reloadProblems`, `agentId` and `favourites`. The choice and the
 * favourites are remembered in this browser, by user. `reloadProblems` are what keeps a changed catalog from being
 * served; only authors and admins are told.
 */

import { browserStorage } from "./browser-storage.js";
import { errorText } from "./error-words.js";

const MOST_FAVOURITES = 100;

export const noAgents = {
  agents: [],
  agentsError: null,
  chatProfiles: [],
  reloadProblems: [],
  agentId: null,
  favourites: [],
};

export class Agents {
  #owner;
  /** The latest read: an earlier one may be answered later, and know less. */
  #request = 0;

  constructor(api, store, owner) {
    Object.assign(this, { api, store });
    this.#owner = owner;
    this.store.set({ agentId: browserStorage.get(this.#key("agent")), favourites: this.#favourites() });
  }

  async read() {
    const request = ++this.#request;
    try {
      const read = await this.api.agents();
      if (request !== this.#request) return;
      const { agents, chat_profiles: chatProfiles = [], reload_problems: reloadProblems = [] } = read;
      const chosen = agents.find(({ id }) => id === this.store.state.agentId) ?? agents.find((agent) => agent.default);
      const agentId = (chosen ?? agents[0])?.id ?? null;
      this.store.set({ agents, chatProfiles, reloadProblems, agentsError: null, agentId });
    } catch (error) {
      if (request !== this.#request) return;
      // Without a valid token the socket closes too, and the page says that.
      this.store.set({ agentsError: error.status === 401 ? null : errorText(error) });
    }
  }

  /** Whom new conversations ask. */
  choose(agentId) {
    browserStorage.set(this.#key("agent"), agentId);
    this.store.set({ agentId });
  }

  toggleFavourite(agentId) {
    const { favourites: before } = this.store.state;
    const favourites = before.includes(agentId)
      ? before.filter((id) => id !== agentId)
      : [...before, agentId].slice(-MOST_FAVOURITES);
    browserStorage.set(this.#key("favourites"), JSON.stringify(favourites));
    this.store.set({ favourites });
  }

  #favourites() {
    try {
      const kept = JSON.parse(browserStorage.get(this.#key("favourites")));
      return Array.isArray(kept) ? kept.filter((id) => typeof id === "string") : [];
    } catch {
      return [];
    }
  }

  #key(what) {
    return `chat.${what}/${encodeURIComponent(this.#owner)}`;
  }
}

/** Whom the open conversation asks next. */
export const nextAgentId = ({ conversation: { session }, agentId }, draft) =>
  session ? (draft.agentId ?? session.agent_id) : agentId;
