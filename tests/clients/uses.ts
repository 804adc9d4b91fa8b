/** Right and wrong uses of the client's types. */

import {
  applyEvent,
  connect,
  newTranscript,
  Refused,
  type ChatMessage,
  type ClientFrame,
  type ExchangeEvent,
  type Part,
  type ServerEvent,
  type Transcript,
} from "@agentic-backend/client";
import type { Delta } from "@agentic-backend/client/protocol";
import WebSocket from "ws";

/** Every type of event is told apart by its `type`. */
function told(event: ExchangeEvent): string {
  switch (event.type) {
    case "started":
      return event.agent_id;
    case "stream":
      return event.message.parts.map(shown).join();
    case "delta":
      return event.text;
    case "activity":
      return event.kind;
    case "awaiting_human":
      return event.payload.requests[0]?.question ?? "";
    case "error":
      return event.code;
    case "reset":
      return event.partial.map(({ text }) => text).join();
    case "final":
      return event.status;
    default:
      return event satisfies never;
  }
}

function shown(part: Part): string {
  // @ts-expect-error: not every part has a text
  part.text;
  return part.type === "text" ? part.text : part.type;
}

function heard(transcript: Transcript, event: ServerEvent): Transcript {
  if (event.type === "error") {
    // @ts-expect-error: a refused frame has no seq
    event.seq;
    return "seq" in event ? applyEvent(transcript, event) : transcript;
  }
  // @ts-expect-error: there is no such event
  if (event.type === "confetti") return transcript;
  return applyEvent(transcript, event);
}

export async function right(): Promise<readonly ChatMessage[]> {
  let transcript = newTranscript();
  const chat = connect("http://127.0.0.1:8000", {
    WebSocket,
    tokens: async ({ renew }) => (renew ? null : { access_token: "…" }),
    onState: ({ phase, code }) => console.log(phase satisfies string, code?.toFixed()),
    onEvent: (event) => (transcript = heard(transcript, event)),
  });
  try {
    const exchange = chat.ask("Hello", { agent_id: "assistant", runtime_context: { page: 1 } });
    for await (const event of exchange) {
      console.log(told(event));
      if (event.type !== "awaiting_human") continue;
      const [request] = event.payload.requests;
      if (request) await chat.decide(event, [{ request, decision: { action: "edit", args: { to: "ann" } } }]);
      if (request) await chat.decide(event, [{ request, decision: { action: "answer", answer: 7 } }]);
    }
  } catch (error) {
    if (error instanceof Refused) console.log(error.code, error.retryAfterS?.toFixed());
  }
  return transcript.exchanges.flatMap(({ messages }) => messages);
}

export function wrong(delta: Delta): void {
  // @ts-expect-error: events are values that nobody changes
  delta.text = "";
  // @ts-expect-error: a channel is one of the protocol's
  const channel: Delta["channel"] = "whisper";
  // @ts-expect-error: an ask needs its message
  const ask: ClientFrame = { type: "ask" };
  // @ts-expect-error: a frame is one of the protocol's
  const frame: ClientFrame = { type: "shout" };
  const chat = connect("http://127.0.0.1:8000");
  // @ts-expect-error: an ask has no such field
  chat.ask("Hello", { agent: "assistant" });
  // @ts-expect-error: tokens have names
  connect("http://127.0.0.1:8000", { tokens: () => "secret" });
  for (const exchange of newTranscript().exchanges) {
    // @ts-expect-error: nobody changes a transcript
    exchange.messages.push(null);
  }
  console.log(channel, ask, frame);
}
