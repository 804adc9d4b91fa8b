/**
 * The agents that the user may ask, which one a new conversation asks, and the user's favourites.
 *
 * Owns `state.agents`, `agentsError`, `chatProfiles`, `agentId` and `favourites`. The choice and the favourites are
 * remembered in this browser, by user.
 */

import { browserStorage } from "./browser-storage.js";
import { errorText } from "./error-words.js";

const MOST_FAVOURITES = 100;

export const noAgents = { agents: [], agentsError: null, chatProfiles: [], agentId: null, favourites: [] };

export class Agents {
  #owner;

  constructor(api, store, owner) {
    Object.assign(this, { api, store });
    this.#owner = owner;
    this.store.set({ agentId: browserStorage.get(this.#key("agent")), favourites: this.#favourites() });
  }

  async read() {
    try {
      const { agents, chat_profiles: chatProfiles = [] } = await this.api.agents();
      const chosen = agents.find(({ id }) => id === this.store.state.agentId) ?? agents.find((agent) => agent.default);
      const agentId = (chosen ?? agents[0])?.id ?? null;
      this.store.set({ agents, chatProfiles, agentsError: null, agentId });
    } catch (error) {
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
