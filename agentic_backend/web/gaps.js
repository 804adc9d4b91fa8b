/** What no event has told of the open conversation, asked of the server: missing messages, endings, decisions. */

import { ApiError } from "./api.js";
import { unknownKeys } from "./client/approvals.js";
import { PAGE, readHistory, readMessages } from "./history.js";
import { outcome } from "./timeline.js";
import { checked, missingAfter, stored, summarised } from "./client/transcript.js";

const READ_AGAIN_MS = 3_000;

export class Gaps {
  /** The rank after which missing messages are or were read: once, unless that failed. */
  #readingAfter = null;
  /** The requests about whose decisions the server has been asked. */
  #asked = "";

  constructor(state, api, onFilled) {
    Object.assign(this, { state, api, onFilled });
  }

  /** Another conversation is opened. */
  leave() {
    this.#readingAfter = null;
    this.#asked = "";
  }

  /** There is a gap between the ranks that are known: an event was missed, the store has its message. */
  async readMissing() {
    const { sessionId, transcript } = this.state.now;
    const afterRank = missingAfter(transcript);
    if (afterRank === null || afterRank === this.#readingAfter) return;
    const { opening } = this.state;
    this.#readingAfter = afterRank;
    try {
      const messages = await readMessages(this.api, sessionId, afterRank + 1, transcript.knownRank);
      if (opening !== this.state.opening) return;
      this.state.set({ transcript: stored(this.state.now.transcript, messages) });
      this.onFilled();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setTimeout(() => this.#readAgain(), READ_AGAIN_MS);
    }
  }

  #readAgain() {
    this.#readingAfter = null;
    this.readMissing();
  }

  /** Reads what is stored from `rank` on, if that comes before all that is known; resolves to whether it could be. */
  async readFrom(rank, limit = PAGE) {
    const { sessionId, transcript } = this.state.now;
    const { opening } = this.state;
    const firstRank = Math.max(0, rank);
    try {
      const { messages, exchanges } = await readHistory(this.api, sessionId, firstRank, transcript.firstRank, limit);
      if (opening !== this.state.opening) return false;
      const { transcript: before } = this.state.now;
      // Two may read at once.
      const read = stored(before, messages, { firstRank: Math.min(firstRank, before.firstRank) });
      this.state.set({ transcript: summarised(read, exchanges) });
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (opening === this.state.opening) this.state.set({ refusal: { code: error.code, content: error.content } });
      return false;
    }
  }

  /** Exchanges that ended unseen and without an answer, and the last one if it failed: may it be tried again? */
  checkUnexplained() {
    const { exchanges } = this.state.now.transcript;
    for (const exchange of exchanges) {
      const ending = exchange.status === null && outcome(exchange);
      if (ending === "unanswered" || (ending === "error" && exchange === exchanges.at(-1))) this.check(exchange);
    }
  }

  /** Something was decided elsewhere: how? And once all has ended: by whom, and when, as the server has it. */
  checkDecisions(exchange) {
    const own = exchange.final ? Object.keys(exchange.decisions).filter((key) => !exchange.decisions[key].at) : [];
    const unknown = [...unknownKeys(exchange), ...own].join();
    if (!unknown || unknown === this.#asked) return;
    this.#asked = unknown;
    this.check(exchange);
  }

  /** Asks how an exchange stands where its messages or events don't tell. */
  async check({ id, seq }) {
    const { opening } = this.state;
    try {
      const record = await this.api.exchange(id);
      if (opening !== this.state.opening) return;
      this.state.set({ transcript: checked(this.state.now.transcript, record, seq) });
      this.onFilled();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }
}
