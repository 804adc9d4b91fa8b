/** A panel in its frame: what it is told of the page, the conversation and its part, and what it may ask. */

import { writtenJson } from "../client/exact-json.js";
import { DropCover } from "./drop-cover.js";
import { entering, guardedFrom } from "./focus-guard.js";
import { FrameHost } from "./frame-host.js";
import { watchContext } from "./host-context.js";
import { AppContext } from "./app-context.js";
import { keptForNow } from "./leaving-frames.js";
import { pass } from "./keys.js";
import { methodsOf } from "./panel-methods.js";

export class PanelHost {
  #frame;
  #context = null;
  #cover;
  #host;
  #panels;
  #isOfTool;
  #unwatch;
  #unguard;
  #unhear = null;
  #shown = null;
  /** The session that the panel was told of. */
  #told;

  /**
   * `html` is the panel's document; `confirm`, `onHeight`: see methodsOf; `onReady`, `onListening`, `onEnd`: see FrameHost.
   */
  constructor({ frame, html, panel, panels, confirm, onHeight, onReady, onListening, onEnd }) {
    this.#frame = frame;
    this.#panels = panels;
    this.#cover = new DropCover(frame);
    this.#isOfTool = Boolean(panel.isOfTool);
    const displayMode = panel.isInline ? "inline" : "fullscreen";
    const follow = () => this.#follow();
    const begins = (withinMs) => this.#host.takeBeginning(withinMs);
    let allowed = {};
    if (this.#isOfTool) this.#context = new AppContext(panels, panel);
    const page = { panel, panels, frame, displayMode, allowed: () => allowed, context: this.#context };
    const takeDrop = () => this.#cover.take();
    const methods = methodsOf({ ...page, begins, confirm, onHeight, follow, takeDrop });
    this.#host = new FrameHost(frame, {
      html,
      ...methods,
      onReady: (hosts) => {
        allowed = hosts;
        onReady(hosts);
      },
      onListening,
      onKey: (key) => pass(key, frame),
      onEnter: entering,
      onEnd: (why) => {
        this.#deafen();
        onEnd(why);
      },
    });
    this.#unguard = guardedFrom(frame);
    this.#unwatch = watchContext(frame, displayMode, (changed) =>
      this.#host.notify("ui/notifications/host-context-changed", changed),
    );
  }

  /** Gives the panel the part that it shows, and again if that has changed. */
  show({ data, text }) {
    const written = writtenJson(data);
    if (written === this.#shown) return;
    this.#shown = written;
    if (this.#isOfTool) this.#host.notify("ui/notifications/tool-input", { arguments: data.input });
    const result = this.#isOfTool ? data.result : { content: [{ type: "text", text }], structuredContent: data };
    this.#host.notify("ui/notifications/tool-result", result);
  }

  /** Has the panel show what a link leads to. */
  open({ data }) {
    this.#host.notify("agentic/notifications/link", { data });
  }

  /** Tells a panel that follows the conversation which one is open. */
  look() {
    if (!this.#unhear) return;
    const { sessionId } = this.#panels.store.state.conversation;
    if (sessionId === this.#told) return;
    this.#told = sessionId;
    this.#host.notify("agentic/notifications/session", { session_id: sessionId });
  }

  /** Before the frame is taken away: where it can be kept for that long, its document may bring its work to an end. */
  close() {
    this.#deafen();
    const left = this.#host.leave();
    if (!left || !keptForNow(this.#frame)) return this.#host.close();
    left.then(() => {
      this.#host.close();
      this.#frame.remove();
    });
  }

  #deafen() {
    this.#unwatch();
    this.#unguard();
    this.#unhear?.();
    this.#context?.close();
    this.#cover.end();
  }

  #follow() {
    this.#unhear ??= this.#panels.hear((event) => {
      this.look();
      if (!event.session_id || event.session_id !== this.#told) return;
      this.#host.notify("agentic/notifications/event", event);
    });
    this.look();
  }
}
