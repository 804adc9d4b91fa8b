/**
 * A chat with the agent that is edited, beside its entry: conversations like all others, in the user's list.
 *
 * Owns `state.trial`: `{agentId, chat}`, null while it is closed; `chat` is the state of the chat itself. The chat is
 * made when it is first opened, and has a connection of its own from then on.
 */

/** It leaves the address to the administration. */
const NO_ADDRESS = { session: () => null, takeRank: () => null, show: () => {} };

export class Trial {
  #chat = null;
  #agentId = null;

  constructor(store, newChat) {
    Object.assign(this, { store, newChat });
  }

  get actions() {
    return this.#chat?.actions;
  }

  async open(agentId) {
    const isOther = this.#agentId !== agentId;
    this.#agentId = agentId;
    if (!this.#chat) {
      this.#chat = this.newChat({ address: NO_ADDRESS, kept: "trials" });
      this.#chat.store.subscribe((chat) => this.store.state.trial && this.#show(chat));
      this.actions.connect();
    } else if (isOther) this.actions.conversation.startNew();
    this.#show(this.#chat.store.state);
    await this.#choose();
  }

  close() {
    this.store.set({ trial: null });
  }

  /** What is asked from now on is answered by what was saved. */
  saved({ id }) {
    if (this.store.state.trial && this.#agentId === id) this.#choose();
  }

  async #choose() {
    await this.actions.agents.read();
    this.#chat.store.set({ agentId: this.#agentId });
  }

  #show(chat) {
    this.store.set({ trial: { agentId: this.#agentId, chat } });
  }
}
