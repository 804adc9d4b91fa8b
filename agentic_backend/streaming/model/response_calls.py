"""ResponseCalls: what the server sees to in the tool calls of a run, whichever model or node makes them.

Results, approvals and records are found by a call's id, so each call of a run has an id of its own: some providers give
none, or number the calls of each response from 0. An id that is unique stays the provider's. A call that was cut off,
or whose arguments are no JSON object, keeps what the model wrote as its one argument `INVALID`; no ToolNode runs it
(see ToolGuard), and its result tells the model.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any
from uuid import UUID, uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import ToolCall, tool_call
from langgraph.types import Command, Overwrite
from pydantic import BaseModel

from agentic_backend.agents.tools.unfit_calls import INVALID, NOT_RUN, is_object, is_unfit
from agentic_backend.errors import ModelError
from agentic_backend.protocol.messages import FinishReason
from agentic_backend.streaming.content.conversion import finish_reason_of
from agentic_backend.streaming.content.short_forms import message_of

_AT_MOST = 10_000
"""The calls of one run that are compared."""
_IN_VAIN = 3
"""So many responses in a row with nothing but calls that can't run end the run."""
# Where blocks of providers have a call's id, and its arguments.
_IDS, _OBJECTS, _TEXTS = ("id", "call_id"), ("input",), ("arguments", "partial_json")


@dataclass(slots=True)
class _Known:
    """A call of the run."""

    name: str
    args: Any
    is_response: bool
    """Whether a model's response is known to have made it, not only a node."""
    messages: set[str] = field(default_factory=set)
    """The ids of the messages that have it: a node may return a response, or a copy, under another id."""
    is_settled: bool = False
    """Whether it has a result."""


class ResponseCalls:
    """Owned by the callback of one run. Models and nodes may run in threads."""

    def __init__(self, given: Iterable[BaseMessage] = (), ran: Iterable[BaseMessage] = ()) -> None:
        """`given` are the messages of the past; `ran` are those of the run so far, if it goes on."""
        self._past = {message.id for message in given}
        self._calls: dict[str, _Known] = {}
        """By id."""
        self._in_vain: dict[UUID, int] = {}
        """How many responses in a row before a model call that runs had only calls that can't run, by its id."""
        self._stuck: set[str] = set()
        """The ids of the calls of the last response, if none of them can run, and nothing has come after it."""
        self._lock = threading.Lock()
        for message in ran:
            if isinstance(message, AIMessage):
                for call in message.tool_calls:
                    self._note(call, message.id, is_response=True)
            elif isinstance(message, ToolMessage) and message.tool_call_id in self._calls:
                self._calls[message.tool_call_id].is_settled = True

    def of_response(self) -> "ResponseIds":
        """The ids of a response that begins."""
        return ResponseIds(self)

    def begin(self, run_id: UUID, messages: Sequence[BaseMessage]) -> None:
        """A model is asked with `messages`."""
        if messages and isinstance(messages[-1], ToolMessage) and messages[-1].content == NOT_RUN:
            self._in_vain[run_id] = _in_vain_before(messages)

    def end(self, run_id: UUID, message: AIMessage, written: Mapping[str, str]) -> None:
        """Look at a whole response, whose calls have ids of their own, before its graph gets it.

        `written` are the arguments as the model wrote them, by call id, if it streamed: LangChain closes what is cut
        off. Raises ModelError if the model makes no progress.
        """
        before = self._in_vain.pop(run_id, 0)
        with self._lock:
            unfit = _mark_unfit(message, written)
            for call in message.tool_calls:
                self._note(call, message.id, is_response=True)
            is_in_vain = 0 < len(unfit) == len(message.tool_calls)
            self._stuck = unfit if is_in_vain else set()
        if is_in_vain and before + 1 >= _IN_VAIN:
            raise _no_progress(before + 1)

    def fail(self, run_id: UUID) -> None:
        """A model call has failed."""
        self._in_vain.pop(run_id, None)

    def require_answered(self) -> None:
        """The graph has ended. Raises ModelError if that is only because no call of the last response could run."""
        if self._stuck:
            raise _no_progress(1)

    def end_of_node(self, update: Any) -> None:
        """Look at the messages that a node writes: it may have made them without a model that the server knows of."""
        messages = list(_messages_in(update))
        if not messages:
            if isinstance(update, str) and update.strip():
                # The answer of a workflow.
                self._stuck = set()
            return
        results = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        with self._lock:
            made = [message for message in messages if isinstance(message, AIMessage)]
            for message in made:
                if message.id is None or message.id not in self._past:
                    self._end_of_made(message, results)
            for call_id in results & self._calls.keys():
                self._calls[call_id].is_settled = True
            # The graph may have an answer of its own.
            if made and self._stuck.isdisjoint(call["id"] or "" for call in made[-1].tool_calls):
                self._stuck = set() if made[-1].id not in self._past else self._stuck

    def _end_of_made(self, message: AIMessage, results: set[str]) -> None:
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        if not calls:
            return
        message.id = message.id or str(uuid4())
        seen: set[str] = set()
        blocks = _Blocks(message)
        for call in calls:
            given = call["id"] or ""
            if not given or given in seen or (given not in results and self._is_other(call, message.id)):
                call["id"] = self.take(given)
            blocks.rename(given, call["id"] or "")
            self._note(call, message.id, is_response=False)
            seen.add(call["id"] or "")
        if not all(self._calls[call_id].is_settled for call_id in seen - results if call_id in self._calls):
            _mark_unfit(message, {})

    def _is_other(self, call: Any, message_id: str) -> bool:
        """Whether a call that a node writes is another one than the one that is known by its id."""
        known = self._calls.get(call["id"])
        if known is None or message_id in known.messages:
            return False
        is_copy = not known.is_settled and (
            known.is_response or (call["name"], call["args"]) == (known.name, known.args)
        )
        return not is_copy

    def _note(self, call: Any, message_id: str | None, *, is_response: bool) -> None:
        if len(self._calls) >= _AT_MOST and call["id"] not in self._calls:
            return
        known = self._calls.setdefault(call["id"] or "", _Known(call["name"] or "", call["args"], is_response))
        # An id is taken before its call is known.
        known.name, known.args = call["name"] or "", call["args"]
        known.is_response |= is_response
        if message_id is not None:
            known.messages.add(message_id)

    def take(self, given: str, *, is_response: bool = False) -> str:
        """An id like `given` that no call of the run has."""
        base, number = given or "call", 1
        own, mark = base, _Known("", None, is_response)
        # By setdefault, because models may run in threads.
        while len(self._calls) < _AT_MOST and self._calls.setdefault(own, mark) is not mark:
            number += 1
            own = f"{base}_{number}"
        return own


class ResponseIds:
    """Gives the calls of one response ids of their own, in place."""

    def __init__(self, calls: ResponseCalls) -> None:
        self._calls = calls
        self._named: dict[tuple[object, str], str] = {}
        """The id of each call so far, by its place in the response and the provider's id: a later chunk may
        repeat it.
        """
        # The call that is being written at each place, and what has come of the arguments of each.
        self._current: dict[object, str] = {}
        self._pieces: dict[str, list[str]] = {}
        self._placeless = 0
        """How many calls have begun that tell no place: LangChain takes each such chunk for a call of its own."""

    @property
    def written(self) -> dict[str, str]:
        """The arguments of the calls that have streamed, by the call's id."""
        return {own: "".join(pieces) for own, pieces in self._pieces.items()}

    def put_into(self, message: AIMessage) -> None:
        """`message` is the response or a chunk of it."""
        blocks = _Blocks(message)
        if isinstance(message, AIMessageChunk):
            self._put_into_chunk(message, blocks)
        else:
            for place, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
                self._name(call, place, blocks)

    def _put_into_chunk(self, chunk: AIMessageChunk, blocks: "_Blocks") -> None:
        is_renamed = False
        for call in chunk.tool_call_chunks:
            place: object = call["index"]
            if place is None:
                self._placeless += bool(call["name"])
                place = ("placeless", self._placeless)
            is_renamed |= self._name(call, place, blocks)
            own = self._current[place] = call["id"] or self._current.get(place, "")
            self._pieces.setdefault(own, []).append(call["args"] or "")
        if is_renamed:
            chunk.init_tool_calls()  # type: ignore[operator]

    def _name(self, call: Any, place: object, blocks: "_Blocks") -> bool:
        """Give the call, or the piece of one, its id; return whether that changes it."""
        given = call["id"] or ""
        own = self._own(place, given, begins=bool(call["name"]))
        if own is not None:
            blocks.rename(given, own)
        if own is None or own == call["id"]:
            return False
        call["id"] = own
        return True

    def _own(self, place: object, given: str, *, begins: bool) -> str | None:
        """The id of the call; None for a piece of a call that has one already."""
        key = (place, given)
        if not given and not begins:
            return None
        if key not in self._named:
            # A provider may tell the id in a later chunk than the name.
            nameless = self._named.get((place, "")) if given and not begins else None
            self._named[key] = nameless or self._calls.take(given, is_response=True)
        return self._named[key]


class _Blocks:
    """The blocks of a provider in one message, in the order of its calls."""

    def __init__(self, message: AIMessage) -> None:
        self._left = list(_blocks_of(message))

    def rename(self, given: str, own: str) -> None:
        """The next call has the id `given` in the provider's block, and gets the id `own`."""
        found = next((one for one in self._left if one[0][one[1]] == given), None)
        if found is not None:
            block, key = found
            block[key] = own
            self._left = [one for one in self._left if one[0] is not block]


def _in_vain_before(messages: Sequence[BaseMessage]) -> int:
    """How many responses at the end of a conversation had only calls that can't run."""
    responses = calls = results = 0
    for message in reversed(messages):
        if isinstance(message, ToolMessage) and message.content == NOT_RUN:
            results += 1
        elif isinstance(message, AIMessage) and message.tool_calls and all(map(_is_unfit, message.tool_calls)):
            responses, calls = responses + 1, calls + len(message.tool_calls)
        else:
            break
    # Where a provider gives all its responses one id, the last one has replaced the others.
    return responses + max(0, results - calls)


def _is_unfit(call: ToolCall) -> bool:
    return is_unfit(call["args"])


def _no_progress(responses: int) -> ModelError:
    told = f"The last {responses} responses" if responses > 1 else "The last response"
    return ModelError(
        f"{told} of the model had only tool calls that were cut off, or whose arguments were not a JSON object.",
        retryable=False,
    )


def _mark_unfit(message: AIMessage, written: Mapping[str, str]) -> set[str]:
    """Give the calls of `message` that can't run their one argument, and return their ids.

    `written` are the arguments as the model wrote them, by call id, where they are known.
    """
    if not message.tool_calls and not message.invalid_tool_calls:
        return set()
    is_cut = finish_reason_of(message) is FinishReason.LENGTH
    if isinstance(message, AIMessageChunk):
        written = {**{chunk["id"] or "": chunk["args"] or "" for chunk in message.tool_call_chunks}, **written}
    unfit: dict[str, str] = {}
    for call in message.tool_calls:
        text = written.get(call["id"] or "")
        if is_unfit(call["args"]):
            unfit[call["id"] or ""] = str(call["args"][INVALID])
        elif is_cut or (text and text.strip() and not is_object(text)):
            unfit[call["id"] or ""] = text if text is not None else json.dumps(call["args"], default=str)
    for invalid in message.invalid_tool_calls:
        id = invalid["id"] or ""
        unfit[id] = invalid["args"] or ""
        message.tool_calls.append(tool_call(name=invalid["name"] or "", args={}, id=id))
    if unfit:
        message.invalid_tool_calls = []
        for call in message.tool_calls:
            if (call["id"] or "") in unfit:
                call["args"] = {INVALID: unfit[call["id"] or ""]}
        _put_into_chunks(message, unfit)
        _put_into_blocks(message, unfit)
    return set(unfit)


def _put_into_chunks(message: AIMessage, unfit: Mapping[str, str]) -> None:
    for chunk in message.tool_call_chunks if isinstance(message, AIMessageChunk) else ():
        if (chunk["id"] or "") in unfit:
            chunk["args"] = json.dumps({INVALID: unfit[chunk["id"] or ""]})


def _put_into_blocks(message: AIMessage, unfit: Mapping[str, str]) -> None:
    """A provider is sent its own blocks again, and refuses those with arguments that are cut off."""
    for block, key in _blocks_of(message):
        if (text := unfit.get(str(block[key]))) is not None:
            block.update({name: {INVALID: text} for name in _OBJECTS if name in block})
            block.update({name: json.dumps({INVALID: text}) for name in _TEXTS if name in block})


def _blocks_of(message: AIMessage) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    """The blocks of providers that may be calls, each with a key that may be that of the call's id."""
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict):
            yield from ((block, key) for key in _IDS if isinstance(block.get(key), str))


def _messages_in(update: Any) -> Iterator[BaseMessage]:
    if isinstance(update, BaseMessage):
        yield update
    elif isinstance(update, list | tuple):
        # Other things that a step returns may be long, and nest.
        for one in update:
            if isinstance(one, BaseMessage | Command | Mapping):
                yield from _messages_in(one)
    elif isinstance(update, Command):
        yield from _messages_in(update.update)
    elif isinstance(update, Mapping):
        yield from _in_channel(update.get("messages"))
    elif isinstance(update, BaseModel) or is_dataclass(update):
        yield from _in_channel(getattr(update, "messages", None))


def _in_channel(written: Any) -> Iterator[BaseMessage]:
    """The messages that are written to the channel `messages`; of those in a short form, copies."""
    written = written.value if isinstance(written, Overwrite) else written
    for one in written if isinstance(written, list) else [] if written is None else [written]:
        message = one if isinstance(one, BaseMessage) else message_of(one)
        if message is not None:
            yield message
