"""StreamTranscoder: converts a LangGraph stream to drafts of Chat Protocol v2.

One per exchange, owned by it. No I/O: no await, no store, no clock (times are passed in, in seconds of one monotonic
clock), so that it can be tested with lists. Both stream modes are needed: tokens come in `messages`, while a handoff's
tool result appears only in `updates`; duplicates are dropped by id. A message is complete when its node returns it.

Each block that a TextDraft opens is closed by exactly one CompleteDraft.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Interrupt

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.agents.parts import EmittedParts
from agentic_backend.protocol.events import HumanRequests
from agentic_backend.protocol.messages import Channel, FinishReason, TokenUsage
from agentic_backend.protocol.parts import TextPart, text_of
from agentic_backend.streaming.content.conversion import (
    as_chunk,
    beside_text,
    calls_of,
    delta_of,
    parts_of,
    server_tools_of,
)
from agentic_backend.streaming.content.structured_output import CHANNEL, may_be_structured
from agentic_backend.streaming.model.model_stream import IS_HIDDEN
from agentic_backend.streaming.people.interrupts import called_names, human_requests
from agentic_backend.streaming.transcode.activities import Names, Speaker, activity_of, server_tool
from agentic_backend.streaming.transcode.drafts import CompleteDraft, Draft, HeldText, MessageDrafts, TextDraft
from agentic_backend.streaming.transcode.emissions import Emissions
from agentic_backend.streaming.transcode.fallback import Fallback
from agentic_backend.streaming.transcode.held_back import EVERYTHING_SHOWN, HeldBack
from agentic_backend.streaming.transcode.held_texts import HeldTexts
from agentic_backend.streaming.transcode.model_message import ModelMessage
from agentic_backend.streaming.transcode.open_calls import OpenCalls
from agentic_backend.streaming.transcode.reach import Reach, keys_of
from agentic_backend.streaming.transcode.resumed_run import ResumedRun
from agentic_backend.streaming.transcode.seen_messages import SeenMessages
from agentic_backend.streaming.transcode.updates import messages_in, written_to
from agentic_backend.streaming.transcode.writing import Place, Writing, claimed_by, is_written
from agentic_backend.text.normal_form import clean

MOST_NODES = 32
"""The most nodes whose names are kept for the log."""


class StreamTranscoder:
    """Call `feed` for every part of the stream, then once `finish` (the graph has ended), `pause` (it waits for a
    person) or `close` (it was cut). With `resumed` it repeats nothing that its run has shown before. `held_back` says
    which texts people don't see; a graph that `answers_in_json` has a channel for a structured response; `titles` are
    those of the tools, by name, and `names` those of the catalog's agents, by id, as far as they have one.
    """

    def __init__(
        self,
        agent_id: str,
        history: Iterable[BaseMessage],
        started_at: float,
        resumed: ResumedRun | None = None,
        *,
        held_back: HeldBack = EVERYTHING_SHOWN,
        answers_in_json: bool = False,
        titles: Mapping[str, str] | None = None,
        names: Names | None = None,
    ) -> None:
        given = list(history)
        self._held_back = held_back
        self._answers_in_json = answers_in_json
        self._seen = SeenMessages(given)
        """Prevents that a repeated message is shown again."""
        self._fallback = Fallback(given, is_resumed=resumed is not None)
        """The final of a graph that adds no text of a model to what it has said."""
        self._writing: dict[str, Writing] = {}
        """The messages that models are writing, by model call id."""
        self._texts = HeldTexts()
        """The complete texts that are not stored yet: of them one may become the final."""
        self._emissions = Emissions(held_back)
        """The parts that nodes emit."""
        self._interrupts: dict[str, Interrupt] = {}
        """The graph's interrupts, by id."""
        self._blocks = resumed.first_block if resumed else 0
        """The number of the next block."""
        self._names = names or {}
        """The names of the catalog's agents, by id."""
        self._speaker = Speaker(agent_id, self._names)
        """Tracks the speaking agent."""
        self._reach = Reach(resumed.stored if resumed else ())
        """Tracks which messages the root graph has."""
        # Builds the messages, and adds up their cost.
        usage = resumed.usage if resumed else TokenUsage()
        self._drafts = MessageDrafts(agent_id, self._reach, started_at, usage, titles)
        self._announced_anew = resumed.to_announce if resumed else []
        """The messages with open calls of a run that continues in a new exchange, with their graphs' namespaces."""
        self.calls = resumed.calls(started_at) if resumed else OpenCalls()
        """The tool calls, and which of them wait for a result."""
        self.first_token_at: float | None = None
        """When the first text or thought came."""
        self.nodes: dict[str, None] = {}
        """The names of the nodes that have ended, the first ones."""

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
    def said_nothing(self) -> bool:
        """Whether the graph has ended without any text of its own."""
        return self._fallback.is_empty

    @property
    def waiting(self) -> HumanRequests | None:
        """The requests to a person, if the graph has paused. Takes a while if what it shows is large."""
        return human_requests(self._interrupts.values())

    @property
    def called(self) -> set[str]:
        """The names of the tools whose calls wait for a result or for a person."""
        return {*self.calls.names, *chain.from_iterable(map(called_names, self._interrupts.values()))}

    def feed(self, part: StreamPart, at: float) -> list[Draft]:
        namespace, mode, payload = part
        if mode == "messages":
            message, metadata = payload
            if isinstance(message, AIMessage):
                return self._chunk(message, namespace, metadata, at)
        elif mode == "updates":
            return self._update(namespace, payload, at)
        elif mode == "custom":
            if not isinstance(payload, EmittedParts):
                return [activity_of(payload, self._names)]
            held = None if self.calls else self._texts
            drafts = self._emissions.take(payload, namespace, self._writing.values(), held, self._drafts)
            is_shown = any(isinstance(draft, CompleteDraft) for draft in drafts)
            return [*self._release(), *drafts] if is_shown else drafts
        return []

    def announce_anew(self, at: float) -> list[Draft]:
        """Announce the open calls of a run that continues in another exchange."""
        return [draft for namespace, message in self._announced_anew for draft in self._calls(message, namespace, at)]

    def pause(self, at: float) -> list[Draft]:
        """The graph waits for a person: complete open texts now, because they might be lost before it continues."""
        return [*self._all_unclaimed(at), *self._release()]

    def finish(self, at: float) -> list[Draft]:
        """The graph has ended: complete everything open, and add exactly one final."""
        drafts = self._all_unclaimed(at)
        final = self._texts.take_last()
        drafts += [*self._release(), *self._answer_open_calls("The tool gave no result.", at)]
        last = self._emissions.with_final(self._fallback.final(final, self._drafts, at))
        return [*drafts, self._drafts.row(last)]

    def close(self, at: float, reason: FinishReason, result: str) -> list[Draft]:
        """The graph was cut: complete everything open. The last text is the final; `result` answers the open calls."""
        drafts = self._all_unclaimed(at, newest=True)
        final = self._texts.take_last()
        drafts += [*self._release(), *self._answer_open_calls(result, at)]
        if final is not None and not self._held_back.all_but_final:
            drafts.append(self._drafts.row(final.draft.with_finish_reason(reason)))
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
            place = (namespace, metadata.get("langgraph_node", ""))
            is_hidden = bool(metadata.get(IS_HIDDEN)) or self._held_back.hides(place)
            writing = self._writing[call] = Writing(call, place, is_hidden=is_hidden)
            drafts += self._speaker.switch(namespace, metadata)
        thought, text = delta_of(chunk)
        beside = beside_text(chunk)
        writing.add(chunk, thought, text, beside)
        if beside:
            drafts += map(server_tool, server_tools_of(beside))
        if writing.is_hidden or self._held_back.all_but_final:
            return drafts
        if thought:
            if writing.thought_block is None:
                writing.thought_block = self._new_block(at)
            drafts.append(TextDraft(writing.thought_block, Channel.THOUGHT, thought))
        if text and not self._waits_for_json(writing):
            if writing.text_block is None:
                writing.text_block, text = self._new_block(at), writing.text
            drafts.append(TextDraft(writing.text_block, _channel(writing.place), text))
        return drafts

    def _waits_for_json(self, writing: Writing) -> bool:
        """Whether a text is not shown before it is complete, because it may be the structured response."""
        may_be = self._answers_in_json and not writing.place[0] and may_be_structured(writing.first_character)
        return may_be and writing.text_block is None

    def _update(self, namespace: tuple[str, ...], payload: Mapping[str, Any], at: float) -> list[Draft]:
        drafts: list[Draft] = []
        for node, update in payload.items():
            if node == "__interrupt__":
                # What is told last has the order of the tasks, and not of the moments at which they asked.
                told = {interrupt.id: interrupt for interrupt in reversed(update)}
                self._interrupts = {key: one for key, one in self._interrupts.items() if key not in told}
                self._interrupts |= dict(reversed(told.items()))
                continue
            place = (namespace, node)
            if len(self.nodes) < MOST_NODES:
                self.nodes[clean(node)] = None
            messages = list(messages_in(update))
            for writing in self._finished(place, messages):
                drafts += self._unclaimed(writing, at)
            for message in messages:
                drafts += self._handed_over(message, place, at)
            if not self._held_back.hides(place):
                self._fallback.answered_in_json(written_to(update, CHANNEL), is_root=not namespace)
            for writing in self._finished(place):
                drafts += self._unclaimed(writing, at)
        return drafts

    def _finished(self, place: Place, returned: Sequence[BaseMessage] = ()) -> list[Writing]:
        """The messages that models have finished at `place`, without those that its node has `returned`."""
        left = list(self._writing.values())
        for message in returned:
            if isinstance(message, AIMessage):
                claimed = claimed_by(message, place, left)
                left = [writing for writing in left if writing is not claimed]
        return [writing for writing in left if writing.ended and writing.place == place]

    def _handed_over(self, message: BaseMessage, place: Place, at: float) -> list[Draft]:
        """A node has returned a message: it is complete."""
        if self._seen.is_history(message) and not is_written(message, self._writing.values()):
            self._fallback.repeated(message, is_hidden=self._held_back.hides(place))
            if isinstance(message, AIMessage) and not place[0]:
                self._reach.add(keys_of(message, by_text=True))
            return []
        if isinstance(message, AIMessage):
            return self._model_message(message, place, at)
        if isinstance(message, RemoveMessage):
            self._removed(message.id)
            return []
        if message.id in self._seen:
            return []
        self._seen.add(message.id)
        if not self._held_back.hides(place):
            self._fallback.added(message)
        return self._result(message, at) if isinstance(message, ToolMessage) else []

    def _removed(self, message_id: str | None) -> None:
        """A graph has removed a message: what was held back until the end is never shown. What people saw stays."""
        if self._held_back.all_but_final:
            removed = None if message_id == REMOVE_ALL_MESSAGES else message_id
            self._texts.remove(removed)
            self._fallback.removed(removed)

    def _model_message(self, message: AIMessage, place: Place, at: float) -> list[Draft]:
        is_root = not place[0]
        if is_root:
            self._reach.add(keys_of(message))
        repeats = self._seen.repeats(message, place[0])
        writing = claimed_by(message, place, list(self._writing.values()))
        if writing is None:
            if message.id in self._seen:
                return self._again(message, place, at)
            if repeats or self._adopts(message, place):
                self._seen.add(message.id)
                if is_root:
                    self._reach.add(keys_of(message, by_text=True))
                return self._due()
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
        newest: bool = False,
    ) -> list[Draft]:
        """The drafts of a complete message. Its text may become the final, unless it is `aside`: within a tool, or less
        preferred than the held text. The `newest` is as good as one that was `handed_over`.
        """
        is_hidden = writing.is_hidden if writing is not None else self._held_back.hides(place)
        calls = calls_of(message)
        new_calls = self.calls.announce(calls, at, place[0], streamed=writing is not None)
        told = ModelMessage.of(
            message, writing, new_calls, self._drafts, at, is_hidden=is_hidden, has_calls=bool(calls)
        )
        keys = None if handed_over and not place[0] else keys_of(message, by_text=True)
        drafts: list[Draft] = [] if told.rest is None else [told.rest._replace(channel=_channel(place))]
        if (known := self._texts.find(message.id)) is not None:
            # A model may reuse an id: from now on it means this message.
            self._texts.replace(known, known._replace(message_id=None))
        if told.thought is not None:
            self._texts.add(HeldText(told.thought, self._began(told.thought), None, True, keys, may_be_final=False))
        if told.text is not None:
            emitted = tuple(writing.emitted) if writing is not None else ()
            may_be_final, returned = not calls and not aside, handed_over or newest
            began = self._began(told.text)
            self._texts.add(HeldText(told.text, began, message.id, returned, keys, may_be_final, emitted))
            if may_be_final:
                self._fallback.answered(message.id, told.parts)
        if told.calls is not None:
            drafts += [*self._release(), self._drafts.row(told.calls, keys)]
        drafts += self._due()
        if handed_over and not is_hidden:
            self._fallback.handed_over(message.id, told.parts, told.finish_reason)
        return drafts

    @property
    def _open_blocks(self) -> list[int]:
        """The blocks of the texts and thoughts that models are writing."""
        blocks = chain.from_iterable((one.thought_block, one.text_block) for one in self._writing.values())
        return [block for block in blocks if block is not None]

    def _began(self, draft: CompleteDraft) -> int:
        """When a text began to be shown (see HeldText)."""
        return self._blocks if draft.block is None else draft.block

    def _again(self, message: AIMessage, place: Place, at: float) -> list[Draft]:
        """The drafts of a known message: usually a parent repeats it, but a later node may have changed its text.

        If it was completed as unclaimed too early, its calls are announced now.
        """
        held = self._texts.find(message.id)
        if held is not None:
            changed = held.saying(parts_of(message) or [TextPart(text="")])
            self._texts.replace(held, self._returned(changed, message, place))
            self._fallback.changed(message.id, changed.draft.message.parts)
        elif (parts := self._fallback.taken_back(message)) is not None:
            # It was removed with all messages, and is one of those that stay.
            draft = self._drafts.said(Channel.FINAL, parts, self._drafts.uncounted(message))
            self._texts.add(HeldText(draft, self._blocks, message.id, True, None))
        else:
            self._fallback.repeated(message, is_hidden=self._held_back.hides(place))
        return [*self._calls(message, place[0], at), *self._due()]

    def _returned(self, held: HeldText, message: AIMessage, place: Place) -> HeldText:
        """A held text which the node at `place` returns in `message`."""
        may_be_final = not message.tool_calls and not self.calls.enclose(place[0])
        return held._replace(message_id=message.id, handed_over=True, may_be_final=held.may_be_final or may_be_final)

    def _calls(self, message: AIMessage, namespace: tuple[str, ...], at: float) -> list[Draft]:
        """Announce the new calls of a message."""
        calls = self.calls.announce(calls_of(message), at, namespace, streamed=False)
        if not calls:
            return []
        row = self._drafts.calling(calls, self._drafts.uncounted(message))
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
        aside = not newest and (self._texts.has_handed_over or self.calls.enclose(writing.place[0]))
        message = writing.message()
        return self._complete(message, writing, writing.place, at, aside=aside, handed_over=False, newest=newest)

    def _adopts(self, message: AIMessage, place: Place) -> bool:
        """Whether a later node returns, in its own message, the held text of a model that no node returned."""
        held = self._texts.unreturned((delta_of(message)[1], text_of(parts_of(message))))
        if held is None or message.tool_calls:
            return False
        self._texts.replace(held, self._returned(held, message, place))
        self._fallback.changed(message.id, held.draft.message.parts)
        return True

    def _result(self, message: ToolMessage, at: float) -> list[Draft]:
        settled = self.calls.settle(message.tool_call_id, at)
        if settled is None:
            return []
        name, latency_ms = settled
        drafts: list[Draft] = [*self._release(), self._drafts.result(message, latency_ms, at)]
        return drafts + (self._speaker.handoff(name) if message.status != "error" else [])

    def _answer_open_calls(self, content: str, at: float) -> list[Draft]:
        return [CompleteDraft(draft, None) for draft in self.calls.settle_all(at, content, self._drafts.bare)]

    def _release(self) -> list[Draft]:
        """Release all held texts: what comes now is shown at once, and they stand before it."""
        return self._shown(self._texts.release())

    def _due(self) -> list[Draft]:
        """Release the held texts whose turn has come."""
        return self._shown(self._texts.due(self._open_blocks))

    def _shown(self, released: Sequence[HeldText]) -> list[Draft]:
        """The rows of texts that did not become the final; none if people see only the final."""
        if self._held_back.all_but_final:
            return []
        return [self._drafts.row(held.draft.as_observation(), held.keys) for held in released]

    def _done(self, writing: Writing) -> None:
        del self._writing[writing.call]
        for known in (writing.call, *writing.ids):
            self._seen.add(known)

    def _new_block(self, at: float) -> int:
        if self.first_token_at is None:
            self.first_token_at = at
        self._blocks += 1
        return self._blocks - 1


def _channel(place: Place) -> Channel:
    """The channel of a text that is being written."""
    return Channel.OBSERVATION if place[0] else Channel.FINAL
