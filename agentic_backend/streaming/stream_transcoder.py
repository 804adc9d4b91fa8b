"""StreamTranscoder: a LangGraph stream in, drafts of Chat Protocol v2 out.

One per exchange, owned by it. No I/O: no await, no store, no clock (times are handed in, in seconds of one monotonic
clock), so that it can be tested with lists. Both stream modes are needed: tokens come in `messages`, while a handoff's
tool result appears only in `updates`; what comes twice is dropped by its id. A message is complete when its node hands
it over.

Every block that is opened by a TextDraft is closed by exactly one CompleteDraft.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, RemoveMessage, ToolMessage
from langgraph.types import Interrupt

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.protocol.events import HumanRequests
from agentic_backend.protocol.messages import (
    Channel,
    FinishReason,
    MessageDraft,
    MessageMetadata,
    Role,
    TokenUsage,
)
from agentic_backend.protocol.parts import Part, TextPart, text_of
from agentic_backend.streaming.content import (
    agent_of,
    as_chunk,
    calls_of,
    clean,
    delta_of,
    finish_reason_of,
    parts_of,
    result_of,
    shown_beside,
)
from agentic_backend.streaming.custom_events import activity_of
from agentic_backend.streaming.drafts import CompleteDraft, Draft, TextDraft
from agentic_backend.streaming.held_text import HeldText, as_observation
from agentic_backend.streaming.interrupts import human_requests
from agentic_backend.streaming.meter import Meter
from agentic_backend.streaming.open_calls import OpenCalls
from agentic_backend.streaming.reach import Reach, keys_of
from agentic_backend.streaming.resumed_run import ResumedRun
from agentic_backend.streaming.speaker import Speaker
from agentic_backend.streaming.updates import messages_in
from agentic_backend.streaming.writing import Place, Writing, claimed_by, shown_of


class StreamTranscoder:
    """`feed` every part of the stream, then once `finish` (the graph has ended), `pause` (it waits for a person) or
    `close` (it was cut). One that is `resumed` tells nothing that its run has told before.
    """

    def __init__(
        self,
        agent_id: str,
        history: Iterable[BaseMessage],
        started_at: float,
        resumed: ResumedRun | None = None,
    ) -> None:
        self._agent_id = agent_id
        self._seen: set[str] = set()
        """The ids of the messages, and of the model's calls, that are done with."""
        self._history: set[str | None] = set()
        self._last_text = self._last_answer = ""
        for message in history:
            self._history.add(message.id)
            self._last_text = message.text
        self._writing: dict[str, Writing] = {}
        self._depths: dict[tuple[str, ...], int] = {}
        self._nameless: Counter[tuple[str, ...]] = Counter()
        self._reach = Reach(resumed.stored if resumed else ())
        self._held: HeldText | None = None
        self._interrupts: dict[str, Interrupt] = {}
        self._blocks = resumed.first_block if resumed else 0
        self._speaker = Speaker(agent_id)
        self._meter = Meter(agent_id, started_at, resumed.usage if resumed else TokenUsage())
        self._announced_anew = resumed.to_announce if resumed else []
        self.calls = resumed.calls(started_at) if resumed else OpenCalls()
        self.first_token_at: float | None = None
        self.state: Mapping[str, Any] | None = None

    @property
    def usage(self) -> TokenUsage:
        return self._meter.usage

    @property
    def model(self) -> str | None:
        return self._meter.model

    @property
    def waiting(self) -> HumanRequests | None:
        """What the graph waits for, where it has paused."""
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
        """The calls that a run which goes on in another exchange has still to make."""
        return [draft for namespace, message in self._announced_anew for draft in self._calls(message, namespace, at)]

    def pause(self, at: float) -> list[Draft]:
        """The graph waits for a person: its texts are told now, for nobody may keep them till then."""
        drafts: list[Draft] = []
        for writing in list(self._writing.values()):
            drafts += self._unclaimed(writing, at)
        return drafts + self._release()

    def finish(self, at: float) -> list[Draft]:
        """The graph has ended: what is still open, and exactly one final."""
        drafts: list[Draft] = []
        for writing in list(self._writing.values()):
            drafts += self._unclaimed(writing, at)
        drafts += [CompleteDraft(draft, None) for draft in self._settle("The tool gave no result.", at)]
        held, self._held = self._held, None
        drafts.append(self._row(held.draft if held else self._repeated_final(at), None))
        return drafts

    def close(self, at: float, reason: FinishReason, result: str) -> list[Draft]:
        """The graph was cut: close what is open. The last text is the final; `result` answers the open calls."""
        drafts: list[Draft] = []
        for writing in list(self._writing.values()):
            drafts += self._unclaimed(writing, at, newest=True)
        drafts += [CompleteDraft(draft, None) for draft in self._settle(result, at)]
        held, self._held = self._held, None
        if held is not None:
            message, block = held.draft
            metadata = message.metadata.model_copy(update={"finish_reason": reason})
            drafts.append(self._row(CompleteDraft(message.model_copy(update={"metadata": metadata}), block), None))
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
        """A node has handed over a message: it is complete."""
        if message.id is not None and message.id in self._history:
            if isinstance(message, AIMessage) and not place[0]:
                self._reach.add(keys_of(message, by_text=True))
            return []
        if isinstance(message, AIMessage):
            return self._model_message(message, place, at)
        if isinstance(message, RemoveMessage) or message.id in self._seen:
            return []
        self._see(message.id)
        self._last_text = message.text
        return self._result(message, at) if isinstance(message, ToolMessage) else []

    def _model_message(self, message: AIMessage, place: Place, at: float) -> list[Draft]:
        is_root = not place[0]
        if is_root:
            self._reach.add(keys_of(message))
        repeats = self._repeats(message, place)
        writing = claimed_by(message, place, list(self._writing.values()))
        if writing is None:
            if message.id in self._seen:
                return self._again(message, place, at)
            if repeats or self._adopts(message):
                self._see(message.id)
                if is_root:
                    self._reach.add(keys_of(message, by_text=True))
                return []
        else:
            self._done(writing)
        self._see(message.id)
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
        """Store what `message` holds. Its text may be the final, unless it stands `aside`: within a tool, or behind the
        one that is held.
        """
        thought, parts = shown_of(message, writing)
        calls = calls_of(message)
        new_calls = self.calls.announce(calls, at, place[0], streamed=writing is not None)
        metadata = self._meter.metadata_of(message if message.usage_metadata or not writing else writing.message(), at)
        bare = MessageMetadata(agent_id=self._agent_id, model=metadata.model, extras=metadata.extras)
        keys = None if handed_over and not place[0] else keys_of(message, by_text=True)
        text_block = writing.text_block if writing else None
        drafts: list[Draft] = []
        if aside and self._held is not None and self._held.message_id == message.id:
            # A model may use an id again: what is handed over under it from now on is this message.
            self._held = self._held._replace(message_id=None)
        if (parts or new_calls) and not aside:
            drafts += self._release()
        if thought:
            draft = self._message(Channel.THOUGHT, [TextPart(text=clean(thought))], bare)
            drafts.append(self._row(CompleteDraft(draft, writing.thought_block if writing else None), keys))
        if parts and calls:
            # No finish reason: its message goes on with the calls, which have it.
            drafts.append(self._row(CompleteDraft(self._message(Channel.OBSERVATION, parts, bare), text_block), keys))
        elif parts:
            final = CompleteDraft(self._message(Channel.FINAL, parts, metadata), text_block)
            if aside:
                drafts.append(self._row(as_observation(final), keys))
            else:
                self._held = HeldText(final, message.id, handed_over, keys)
                self._last_answer = text_of(parts)
        if new_calls:
            row = CompleteDraft(self._message(Channel.TOOL_CALL, list(new_calls), metadata), None)
            drafts.append(self._row(row, keys))
        if handed_over:
            self._last_text = text_of(parts) or self._last_answer
        return drafts

    def _again(self, message: AIMessage, place: Place, at: float) -> list[Draft]:
        """A message that is known: most often repeated by a parent, but a later node may have changed its text.

        One that was given up for unclaimed too early has its calls yet.
        """
        held = self._held
        if held is not None and held.message_id == message.id:
            changed = held.draft.message.model_copy(update={"parts": parts_of(message) or [TextPart(text="")]})
            self._held = held._replace(draft=held.draft._replace(message=changed), handed_over=True)
            self._last_text = self._last_answer = text_of(changed.parts)
        return self._calls(message, place[0], at)

    def _calls(self, message: AIMessage, namespace: tuple[str, ...], at: float) -> list[Draft]:
        """The calls of a message that have not been announced."""
        calls = self.calls.announce(calls_of(message), at, namespace, streamed=False)
        if not calls:
            return []
        metadata = MessageMetadata(
            agent_id=self._agent_id, finish_reason=finish_reason_of(message), extras=agent_of(message)
        )
        row = CompleteDraft(self._message(Channel.TOOL_CALL, list(calls), metadata), None)
        return [*self._release(), self._row(row, keys_of(message) if namespace else None)]

    def _unclaimed(self, writing: Writing, at: float, *, newest: bool = False) -> list[Draft]:
        """A model message that no node handed over: its text and thoughts were seen, so they are stored.

        Its calls are not, since nobody runs them. Where a text is held that a node did hand over, that one is the
        better answer, unless this is the `newest`.
        """
        self._done(writing)
        behind = self._held is not None and self._held.handed_over
        aside = not newest and (behind or self.calls.enclose(writing.place[0]))
        return self._complete(writing.message(), writing, writing.place, at, aside=aside, handed_over=False)

    def _adopts(self, message: AIMessage) -> bool:
        """Whether a later node hands over, in a message of its own, the held text of a model that no node had."""
        held = self._held
        if held is None or held.handed_over or message.tool_calls:
            return False
        if text_of(held.draft.message.parts) != clean(message.text):
            return False
        self._held = held._replace(message_id=message.id, handed_over=True)
        self._last_text = self._last_answer
        return True

    def _repeats(self, message: AIMessage, place: Place) -> bool:
        """Whether a parent hands over what its subgraph has: a copy, or the message with the id that it got since."""
        depth, signature = len(place[0]), (message.text, *(str(call["id"]) for call in message.tool_calls))
        before = self._depths.get(signature, -1)
        self._depths[signature] = depth
        if message.id is None:
            self._nameless[signature] += 1
        elif depth <= before and self._nameless[signature]:
            self._nameless[signature] -= 1
            return True
        return depth < before

    def _result(self, message: ToolMessage, at: float) -> list[Draft]:
        settled = self.calls.settle(message.tool_call_id, at)
        if settled is None:
            return []
        name, latency_ms = settled
        result = result_of(message, latency_ms)
        self.calls.failed += result.ok is False
        self._meter.since, self._last_text = at, result.content
        metadata = MessageMetadata(agent_id=self._agent_id, latency_ms=latency_ms)
        draft = MessageDraft(
            role=Role.TOOL, channel=Channel.TOOL_RESULT, parts=[result, *shown_beside(message)], metadata=metadata
        )
        drafts: list[Draft] = [CompleteDraft(draft, None)]
        return drafts + (self._speaker.handoff(name) if result.ok else [])

    def _settle(self, content: str, at: float) -> list[MessageDraft]:
        return self.calls.settle_all(at, content, MessageMetadata(agent_id=self._agent_id))

    def _repeated_final(self, at: float) -> CompleteDraft:
        """The final of a graph that ended without an assistant text: the text of its last message."""
        metadata = MessageMetadata(agent_id=self._agent_id, latency_ms=self._meter.latency_ms(at))
        return CompleteDraft(self._message(Channel.FINAL, [TextPart(text=clean(self._last_text))], metadata), None)

    def _release(self) -> list[Draft]:
        """Let go of the text that was held back as the possible final: a later one has come."""
        held, self._held = self._held, None
        return [] if held is None else [self._row(as_observation(held.draft), held.keys)]

    def _row(self, draft: CompleteDraft, keys: Sequence[object] | None) -> CompleteDraft:
        """`draft`, which is stored next, with what its row tells of its message's reach; `keys` as in HeldText."""
        extras = self._reach.extras(keys) if keys else self._reach.extras_of_final()
        if not extras:
            return draft
        metadata = draft.message.metadata
        metadata = metadata.model_copy(update={"extras": metadata.extras | extras})
        return draft._replace(message=draft.message.model_copy(update={"metadata": metadata}))

    def _done(self, writing: Writing) -> None:
        del self._writing[writing.call]
        for known in (writing.call, *writing.ids):
            self._see(known)

    def _see(self, message_id: str | None) -> None:
        if message_id:
            self._seen.add(message_id)

    def _new_block(self, at: float) -> int:
        if self.first_token_at is None:
            self.first_token_at = at
        self._blocks += 1
        return self._blocks - 1

    def _message(self, channel: Channel, parts: list[Part], metadata: MessageMetadata) -> MessageDraft:
        return MessageDraft(role=Role.ASSISTANT, channel=channel, parts=parts, metadata=metadata)
