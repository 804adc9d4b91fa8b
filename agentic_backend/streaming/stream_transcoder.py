"""StreamTranscoder: converts a LangGraph stream to drafts of Chat Protocol v2.

One per exchange, owned by it. No I/O: no await, no store, no clock (times are passed in, in seconds of one monotonic
clock), so that it can be tested with lists. Both stream modes are needed: tokens come in `messages`, while a handoff's
tool result appears only in `updates`; duplicates are dropped by id. A message is complete when its node returns it.

Each block that a TextDraft opens is closed by exactly one CompleteDraft.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, RemoveMessage, ToolMessage
from langgraph.types import Interrupt

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.protocol.events import HumanRequests
from agentic_backend.protocol.messages import Channel, FinishReason, TokenUsage
from agentic_backend.protocol.parts import TextPart, text_of
from agentic_backend.streaming.activities import Speaker, activity_of
from agentic_backend.streaming.content import (
    as_chunk,
    calls_of,
    clean,
    delta_of,
    parts_of,
    result_of,
    shown_beside,
)
from agentic_backend.streaming.drafts import CompleteDraft, Draft, HeldText, MessageDrafts, TextDraft
from agentic_backend.streaming.interrupts import human_requests
from agentic_backend.streaming.open_calls import OpenCalls
from agentic_backend.streaming.reach import Reach, keys_of
from agentic_backend.streaming.resumed_run import ResumedRun
from agentic_backend.streaming.seen_messages import SeenMessages
from agentic_backend.streaming.updates import messages_in
from agentic_backend.streaming.writing import Place, Writing, claimed_by, shown_of


class StreamTranscoder:
    """Call `feed` for every part of the stream, then once `finish` (the graph has ended), `pause` (it waits for a
    person) or `close` (it was cut). With `resumed` it repeats nothing that its run has shown before.
    """

    def __init__(
        self,
        agent_id: str,
        history: Iterable[BaseMessage],
        started_at: float,
        resumed: ResumedRun | None = None,
    ) -> None:
        given = list(history)
        # Prevents that a repeated message is shown again.
        self._seen = SeenMessages(given)
        # The text of the last message and of a model's last answer: the fallback for the final.
        self._last_text, self._last_answer = (given[-1].text if given else ""), ""
        # The messages that models are writing, by model call id.
        self._writing: dict[str, Writing] = {}
        # The text that may become the final.
        self._held: HeldText | None = None
        # The graph's interrupts, by id.
        self._interrupts: dict[str, Interrupt] = {}
        # The number of the next block.
        self._blocks = resumed.first_block if resumed else 0
        # Tracks the speaking agent.
        self._speaker = Speaker(agent_id)
        # Tracks which messages the root graph has.
        self._reach = Reach(resumed.stored if resumed else ())
        # Builds the messages, and adds up their cost.
        self._drafts = MessageDrafts(agent_id, self._reach, started_at, resumed.usage if resumed else TokenUsage())
        # The messages with open calls of a run that continues in a new exchange, with their graphs' namespaces.
        self._announced_anew = resumed.to_announce if resumed else []
        # The tool calls, and which of them wait for a result.
        self.calls = resumed.calls(started_at) if resumed else OpenCalls()
        # When the first text or thought came.
        self.first_token_at: float | None = None
        # The root graph's last reported state.
        self.state: Mapping[str, Any] | None = None

    @property
    def usage(self) -> TokenUsage:
        return self._drafts.usage

    @property
    def model(self) -> str | None:
        return self._drafts.model

    @property
    def is_paused(self) -> bool:
        """Whether the graph has paused for a person."""
        return bool(self._interrupts)

    @property
    def waiting(self) -> HumanRequests | None:
        """The requests to a person, if the graph has paused. Takes a while if what it shows is large."""
        return human_requests(self._interrupts.values())

    def feed(self, part: StreamPart, at: float) -> list[Draft]:
        namespace, mode, payload = part
        if mode == "messages":
            message, metadata = payload
            if isinstance(message, AIMessage):
                return self._chunk(message, namespace, metadata, at)
        elif mode == "updates":
            return self._update(namespace, payload, at)
        elif mode == "custom":
            return [activity_of(payload)]
        elif mode == "values" and not namespace:
            self.state = payload
        return []

    def announce_anew(self, at: float) -> list[Draft]:
        """Announce the open calls of a run that continues in another exchange."""
        return [draft for namespace, message in self._announced_anew for draft in self._calls(message, namespace, at)]

    def pause(self, at: float) -> list[Draft]:
        """The graph waits for a person: complete open texts now, because they might be lost before it continues."""
        return [*self._all_unclaimed(at), *self._release()]

    def finish(self, at: float) -> list[Draft]:
        """The graph has ended: complete everything open, and add exactly one final."""
        drafts = [*self._all_unclaimed(at), *self._answer_open_calls("The tool gave no result.", at)]
        held, self._held = self._held, None
        final = held.draft if held else self._drafts.final_of(self._last_text, at)
        return [*drafts, self._drafts.row(final)]

    def close(self, at: float, reason: FinishReason, result: str) -> list[Draft]:
        """The graph was cut: complete everything open. The last text is the final; `result` answers the open calls."""
        drafts = [*self._all_unclaimed(at, newest=True), *self._answer_open_calls(result, at)]
        held, self._held = self._held, None
        if held is not None:
            drafts.append(self._drafts.row(held.draft.with_finish_reason(reason)))
        return drafts

    def _chunk(
        self, message: AIMessage, namespace: tuple[str, ...], metadata: Mapping[str, Any], at: float
    ) -> list[Draft]:
        chunk = message if isinstance(message, AIMessageChunk) else as_chunk(message)
        call = str(metadata.get("run_id") or chunk.id or "")
        drafts: list[Draft] = []
        writing = self._writing.get(call)
        if writing is None:
            if call in self._seen:
                return drafts
            writing = Writing(call, (namespace, metadata.get("langgraph_node", "")))
            self._writing[call] = writing
            drafts += self._speaker.switch(namespace, metadata)
        thought, text = delta_of(chunk)
        writing.add(chunk, thought, text)
        if thought:
            if writing.thought_block is None:
                writing.thought_block = self._new_block(at)
            drafts.append(TextDraft(writing.thought_block, Channel.THOUGHT, clean(thought)))
        if text:
            if writing.text_block is None:
                writing.text_block = self._new_block(at)
            drafts.append(
                TextDraft(writing.text_block, Channel.OBSERVATION if namespace else Channel.FINAL, clean(text))
            )
        return drafts

    def _update(self, namespace: tuple[str, ...], payload: Mapping[str, Any], at: float) -> list[Draft]:
        drafts: list[Draft] = []
        for node, update in payload.items():
            if node == "__interrupt__":
                self._interrupts |= {interrupt.id: interrupt for interrupt in update}
                continue
            place = (namespace, node)
            for message in messages_in(update):
                drafts += self._handed_over(message, place, at)
            for writing in list(self._writing.values()):
                if writing.ended and writing.place == place:
                    drafts += self._unclaimed(writing, at)
        return drafts

    def _handed_over(self, message: BaseMessage, place: Place, at: float) -> list[Draft]:
        """A node has returned a message: it is complete."""
        if self._seen.is_history(message):
            if isinstance(message, AIMessage) and not place[0]:
                self._reach.add(keys_of(message, by_text=True))
            return []
        if isinstance(message, AIMessage):
            return self._model_message(message, place, at)
        if isinstance(message, RemoveMessage) or message.id in self._seen:
            return []
        self._seen.add(message.id)
        self._last_text = message.text
        return self._result(message, at) if isinstance(message, ToolMessage) else []

    def _model_message(self, message: AIMessage, place: Place, at: float) -> list[Draft]:
        is_root = not place[0]
        if is_root:
            self._reach.add(keys_of(message))
        repeats = self._seen.repeats(message, place[0])
        writing = claimed_by(message, place, list(self._writing.values()))
        if writing is None:
            if message.id in self._seen:
                return self._again(message, place, at)
            if repeats or self._adopts(message):
                self._seen.add(message.id)
                if is_root:
                    self._reach.add(keys_of(message, by_text=True))
                return []
        else:
            self._done(writing)
        self._seen.add(message.id)
        return self._complete(message, writing, place, at, aside=self.calls.enclose(place[0]))

    def _complete(
        self,
        message: AIMessage,
        writing: Writing | None,
        place: Place,
        at: float,
        *,
        aside: bool = False,
        handed_over: bool = True,
    ) -> list[Draft]:
        """The drafts of a complete message. Its text may become the final, unless it is `aside`: within a tool, or less
        preferred than the held text.
        """
        thought, parts = shown_of(message, writing)
        calls = calls_of(message)
        new_calls = self.calls.announce(calls, at, place[0], streamed=writing is not None)
        metadata = self._drafts.counted(message if message.usage_metadata or not writing else writing.message(), at)
        beside = self._drafts.beside(metadata)
        keys = None if handed_over and not place[0] else keys_of(message, by_text=True)
        text_block = writing.text_block if writing else None
        drafts: list[Draft] = []
        if aside and self._held is not None and self._held.message_id == message.id:
            # A model may reuse an id: from now on it means this message.
            self._held = self._held._replace(message_id=None)
        if (parts or new_calls) and not aside:
            drafts += self._release()
        if thought:
            block = writing.thought_block if writing else None
            draft = self._drafts.said(Channel.THOUGHT, [TextPart(text=clean(thought))], beside, block)
            drafts.append(self._drafts.row(draft, keys))
        if parts and calls:
            # No finish reason: the message continues with the calls, whose row has it.
            draft = self._drafts.said(Channel.OBSERVATION, parts, beside, text_block)
            drafts.append(self._drafts.row(draft, keys))
        elif parts:
            final = self._drafts.said(Channel.FINAL, parts, metadata, text_block)
            if aside:
                drafts.append(self._drafts.row(final.as_observation(), keys))
            else:
                self._held = HeldText(final, message.id, handed_over, keys)
                self._last_answer = text_of(parts)
        if new_calls:
            drafts.append(self._drafts.row(self._drafts.said(Channel.TOOL_CALL, new_calls, metadata), keys))
        if handed_over:
            self._last_text = text_of(parts) or self._last_answer
        return drafts

    def _again(self, message: AIMessage, place: Place, at: float) -> list[Draft]:
        """The drafts of a known message: usually a parent repeats it, but a later node may have changed its text.

        If it was completed as unclaimed too early, its calls are announced now.
        """
        held = self._held
        if held is not None and held.message_id == message.id:
            changed = held.draft.with_parts(parts_of(message) or [TextPart(text="")])
            self._held = held._replace(draft=changed, handed_over=True)
            self._last_text = self._last_answer = self._held.text
        return self._calls(message, place[0], at)

    def _calls(self, message: AIMessage, namespace: tuple[str, ...], at: float) -> list[Draft]:
        """Announce the new calls of a message."""
        calls = self.calls.announce(calls_of(message), at, namespace, streamed=False)
        if not calls:
            return []
        row = self._drafts.said(Channel.TOOL_CALL, calls, self._drafts.uncounted(message))
        return [*self._release(), self._drafts.row(row, keys_of(message) if namespace else None)]

    def _all_unclaimed(self, at: float, *, newest: bool = False) -> list[Draft]:
        """Complete all partial messages, because the graph does not continue."""
        return [
            draft for writing in list(self._writing.values()) for draft in self._unclaimed(writing, at, newest=newest)
        ]

    def _unclaimed(self, writing: Writing, at: float, *, newest: bool = False) -> list[Draft]:
        """Complete a model message that no node returned: its text and thoughts were shown, so they are stored.

        Its calls are not, because nothing runs them. A held text that a node returned is preferred as the final, unless
        this message is the `newest`.
        """
        self._done(writing)
        behind = self._held is not None and self._held.handed_over
        aside = not newest and (behind or self.calls.enclose(writing.place[0]))
        return self._complete(writing.message(), writing, writing.place, at, aside=aside, handed_over=False)

    def _adopts(self, message: AIMessage) -> bool:
        """Whether a later node returns, in its own message, the held text of a model that no node returned."""
        held = self._held
        if held is None or held.handed_over or message.tool_calls:
            return False
        if held.text != clean(message.text):
            return False
        self._held = held._replace(message_id=message.id, handed_over=True)
        self._last_text = self._last_answer
        return True

    def _result(self, message: ToolMessage, at: float) -> list[Draft]:
        settled = self.calls.settle(message.tool_call_id, at)
        if settled is None:
            return []
        name, latency_ms = settled
        result = result_of(message, latency_ms)
        self._last_text = result.content
        drafts: list[Draft] = [self._drafts.result(result, shown_beside(message), at)]
        return drafts + (self._speaker.handoff(name) if result.ok else [])

    def _answer_open_calls(self, content: str, at: float) -> list[Draft]:
        return [CompleteDraft(draft, None) for draft in self.calls.settle_all(at, content, self._drafts.bare)]

    def _release(self) -> list[Draft]:
        """Release the held text as an observation: a later message has come."""
        held, self._held = self._held, None
        return [] if held is None else [self._drafts.row(held.draft.as_observation(), held.keys)]

    def _done(self, writing: Writing) -> None:
        del self._writing[writing.call]
        for known in (writing.call, *writing.ids):
            self._seen.add(known)

    def _new_block(self, at: float) -> int:
        if self.first_token_at is None:
            self.first_token_at = at
        self._blocks += 1
        return self._blocks - 1
