"""StreamTranscoder: a LangGraph stream in, drafts of Chat Protocol v2 out.

One per exchange, owned by it. No I/O: no await, no store, no clock (times are handed in, in seconds of one monotonic
clock), so that it can be tested with lists. Both stream modes are needed: tokens come in `messages`, while a handoff's
tool result appears only in `updates`; what comes twice is dropped by its id. A message is complete when its node hands
it over.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
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
from agentic_backend.protocol.parts import Part, TextPart
from agentic_backend.streaming.content import (
    calls_of,
    clean,
    delta_of,
    finish_reason_of,
    model_of,
    parts_of,
    plain,
    result_of,
    usage_of,
)
from agentic_backend.streaming.drafts import ActivityDraft, CompleteDraft, Draft, TextDraft
from agentic_backend.streaming.interrupts import requests_of
from agentic_backend.streaming.open_calls import OpenCalls
from agentic_backend.streaming.updates import messages_in
from agentic_backend.streaming.writing import Place, Writing


class StreamTranscoder:
    """`feed` every part of the stream, then `finish` once (the graph has ended) or `close` once (it was cut)."""

    def __init__(self, agent_id: str, history: Iterable[BaseMessage], started_at: float) -> None:
        self._agent_id = agent_id
        self._seen: set[str | None] = set()
        self._last_text = ""
        for message in history:
            self._seen.add(message.id)
            self._last_text = message.text
        self._writing: dict[str, Writing] = {}
        self._without_id: dict[tuple[str, str], int] = {}
        self._held: CompleteDraft | None = None
        self._interrupts: dict[str, Interrupt] = {}
        self._blocks = 0
        self._speaker = ""
        self._since = started_at
        self.calls = OpenCalls()
        self.usage = TokenUsage()
        self.model: str | None = None
        self.first_token_at: float | None = None
        self.state: Mapping[str, Any] | None = None

    @property
    def waiting(self) -> HumanRequests | None:
        """What the graph waits for, where it has paused."""
        requests = [request for interrupt in self._interrupts.values() for request in requests_of(interrupt)]
        return HumanRequests(requests=requests) if requests else None

    def feed(self, part: StreamPart, at: float) -> list[Draft]:
        namespace, mode, payload = part
        if mode == "messages":
            message, metadata = payload
            if isinstance(message, AIMessageChunk):
                return self._chunk(message, namespace, metadata, at)
            return self._handed_over(message, (namespace, metadata.get("langgraph_node", "")), at)
        if mode == "updates":
            return self._update(namespace, payload, at)
        if mode == "custom":
            data = plain(payload) if isinstance(payload, Mapping) else plain({"value": payload})
            return [ActivityDraft("progress", data)]
        if mode == "values" and not namespace:
            self.state = payload
        return []

    def finish(self, at: float) -> list[Draft]:
        """The graph has ended: what is still open, and exactly one final."""
        drafts: list[Draft] = []
        for message_id in list(self._writing):
            drafts += self._unclaimed(message_id, at)
        drafts += [CompleteDraft(draft, None) for draft in self._settle("The tool gave no result.", at)]
        held, self._held = self._held, None
        drafts.append(held or CompleteDraft(self._text_message(Channel.FINAL, self._last_text, at), None))
        return drafts

    def close(self, at: float, reason: FinishReason, result: str) -> list[Draft]:
        """The graph was cut: close what is open. The last text is the final; `result` answers the open calls."""
        drafts: list[Draft] = []
        for message_id in list(self._writing):
            drafts += self._unclaimed(message_id, at, newest=True)
        drafts += [CompleteDraft(draft, None) for draft in self._settle(result, at)]
        if self._held is not None:
            message, block = self._held
            self._held = None
            metadata = message.metadata.model_copy(update={"finish_reason": reason})
            drafts.append(CompleteDraft(message.model_copy(update={"metadata": metadata}), block))
        return drafts

    def _chunk(
        self, chunk: AIMessageChunk, namespace: tuple[str, ...], metadata: Mapping[str, Any], at: float
    ) -> list[Draft]:
        message_id = chunk.id or ""
        drafts: list[Draft] = []
        writing = self._writing.get(message_id)
        if writing is None:
            if message_id in self._seen:
                return drafts
            writing = Writing((namespace, metadata.get("langgraph_node", "")))
            self._writing[message_id] = writing
            drafts += self._release()
            drafts += self._switch(_speaker(namespace, metadata))
        writing.chunks.append(chunk)
        if chunk.chunk_position == "last":
            writing.ended = True
        thought, text = delta_of(chunk)
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
            for message_id, writing in list(self._writing.items()):
                if writing.ended and writing.place == place:
                    drafts += self._unclaimed(message_id, at)
        return drafts

    def _handed_over(self, message: BaseMessage, place: Place, at: float) -> list[Draft]:
        """A node has handed over a message: it is complete."""
        if isinstance(message, ToolMessage):
            return self._result(message, at)
        if not isinstance(message, AIMessage):
            return []
        if message.id is not None and message.id in self._seen:
            return self._late_calls(message, at)
        writing = self._claim(message, place)
        if writing is None and self._repeats(message, place):
            return []
        self._seen.add(message.id)
        return self._complete(message, writing, at)

    def _complete(
        self, message: AIMessage, writing: Writing | None, at: float, *, behind_held: bool = False
    ) -> list[Draft]:
        """Store what `message` holds. Its text may be the final, unless it stands `behind_held`."""
        drafts = [] if behind_held else self._release()
        thought = delta_of(message)[0]
        parts = parts_of(message)
        calls = self.calls.announce(calls_of(message), at)
        metadata = self._metadata_of(message, at)
        bare = MessageMetadata(agent_id=self._agent_id, model=metadata.model)
        text_block = writing.text_block if writing else None
        if thought:
            draft = self._message(Channel.THOUGHT, [TextPart(text=clean(thought))], bare)
            drafts.append(CompleteDraft(draft, writing.thought_block if writing else None))
        if parts and calls:
            drafts.append(CompleteDraft(self._message(Channel.OBSERVATION, parts, bare), text_block))
        elif parts:
            final = CompleteDraft(self._message(Channel.FINAL, parts, metadata), text_block)
            if behind_held:
                drafts.append(_as_observation(final))
            else:
                self._held = final
        if calls:
            drafts.append(CompleteDraft(self._message(Channel.TOOL_CALL, list(calls), metadata), None))
        self._last_text = message.text
        return drafts

    def _late_calls(self, message: AIMessage, at: float) -> list[Draft]:
        """The calls of a message whose text was given up for unclaimed too early; none where it was complete."""
        calls = self.calls.announce(calls_of(message), at)
        if not calls:
            return []
        return [CompleteDraft(self._message(Channel.TOOL_CALL, list(calls), self._metadata_of(message, at)), None)]

    def _unclaimed(self, message_id: str, at: float, *, newest: bool = False) -> list[Draft]:
        """A model message that no node handed over: its text and thoughts were seen, so they are stored.

        Where a text is held that a node did hand over, that one is the better answer, unless this is the `newest`.
        """
        writing = self._writing.pop(message_id)
        self._seen.add(message_id)
        message = writing.whole()
        message.tool_calls, message.invalid_tool_calls = [], []
        return self._complete(message, writing, at, behind_held=self._held is not None and not newest)

    def _result(self, message: ToolMessage, at: float) -> list[Draft]:
        settled = self.calls.settle(message.tool_call_id, at)
        if settled is None:
            return []
        name, latency_ms = settled
        result = result_of(message, latency_ms)
        self.calls.failed += result.ok is False
        self._since, self._last_text = at, result.content
        metadata = MessageMetadata(agent_id=self._agent_id, latency_ms=latency_ms)
        draft = MessageDraft(role=Role.TOOL, channel=Channel.TOOL_RESULT, parts=[result], metadata=metadata)
        drafts: list[Draft] = [CompleteDraft(draft, None)]
        if name.startswith("transfer_"):
            to = name.removeprefix("transfer_").removeprefix("back_").removeprefix("to_")
            drafts.append(ActivityDraft("handoff", {"from": self._speaker or self._agent_id, "to": to}))
        return drafts

    def _settle(self, content: str, at: float) -> list[MessageDraft]:
        return self.calls.settle_all(at, content, MessageMetadata(agent_id=self._agent_id))

    def _claim(self, message: AIMessage, place: Place) -> Writing | None:
        """What was streamed of `message`: by its id or, where its node made a copy of it, by its text."""
        if message.id in self._writing:
            return self._writing.pop(message.id or "")
        for message_id, writing in self._writing.items():
            if writing.ended and writing.place == place and writing.whole().text == message.text:
                self._seen.add(message_id)
                return self._writing.pop(message_id)
        return None

    def _repeats(self, message: AIMessage, place: Place) -> bool:
        """Whether a parent hands over again what its subgraph handed over before the message had an id."""
        signature = (message.text, str(message.tool_calls))
        if message.id is None:
            self._without_id[signature] = len(place[0])
            return False
        if self._without_id.get(signature, -1) <= len(place[0]):
            return False
        del self._without_id[signature]
        self._seen.add(message.id)
        return True

    def _release(self) -> list[Draft]:
        """Let go of the text that was held back as the possible final: a later one has come."""
        held, self._held = self._held, None
        return [] if held is None else [_as_observation(held)]

    def _switch(self, speaker: str) -> list[Draft]:
        if speaker == self._speaker:
            return []
        before, self._speaker = self._speaker, speaker
        return [ActivityDraft("agent_switch", {"from": before or self._agent_id, "to": speaker or self._agent_id})]

    def _new_block(self, at: float) -> int:
        if self.first_token_at is None:
            self.first_token_at = at
        self._blocks += 1
        return self._blocks - 1

    def _metadata_of(self, message: AIMessage, at: float) -> MessageMetadata:
        usage, latency_ms = usage_of(message), round((at - self._since) * 1000)
        self._since = at
        self.usage += usage or TokenUsage()
        self.model = model_of(message) or self.model
        return MessageMetadata(
            model=model_of(message),
            token_usage=usage,
            agent_id=self._agent_id,
            latency_ms=latency_ms,
            finish_reason=finish_reason_of(message),
        )

    def _text_message(self, channel: Channel, text: str, at: float) -> MessageDraft:
        metadata = MessageMetadata(agent_id=self._agent_id, latency_ms=round((at - self._since) * 1000))
        return self._message(channel, [TextPart(text=clean(text))], metadata)

    def _message(self, channel: Channel, parts: list[Part], metadata: MessageMetadata) -> MessageDraft:
        return MessageDraft(role=Role.ASSISTANT, channel=channel, parts=parts, metadata=metadata)


def _speaker(namespace: tuple[str, ...], metadata: Mapping[str, Any]) -> str:
    """The name of the agent that speaks within the graph; empty for the graph itself."""
    return str(metadata.get("lc_agent_name") or namespace[0].partition(":")[0]) if namespace else ""


def _as_observation(draft: CompleteDraft) -> CompleteDraft:
    return draft._replace(message=draft.message.model_copy(update={"channel": Channel.OBSERVATION}))
