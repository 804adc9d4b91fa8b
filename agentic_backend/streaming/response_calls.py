"""ResponseCalls: what the server sees to in the tool calls of a run, whichever model or node makes them.

Results, approvals and records are found by a call's id, so each call of a run has an id of its own: some providers give
none, or number the calls of each response from 0. An id that is unique stays the provider's. A call that was cut off,
or whose arguments are no JSON object, keeps what the model wrote as its one argument `INVALID`; no ToolNode runs it
(see ToolGuard), and its result tells the model.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langgraph.types import Command

from agentic_backend.agents.unfit_calls import INVALID, is_object, is_unfit
from agentic_backend.errors import ModelError
from agentic_backend.protocol.messages import FinishReason
from agentic_backend.streaming.content import finish_reason_of

_AT_MOST = 10_000
"""The ids of one run that are compared."""
_IN_VAIN = 3
"""So many responses in a row with nothing but calls that can't run end the run."""
# Where blocks of providers have a call's id, and its arguments.
_IDS, _OBJECTS, _TEXTS = ("id", "call_id"), ("input",), ("arguments", "partial_json")


class _Owner(NamedTuple):
    """The message that has a call."""

    id: str
    is_response: bool
    """Whether a model's response to the server is known to have made it, not only a node."""


class ResponseCalls:
    """Owned by the callback of one run. Models and nodes may run in threads."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """`taken` are the ids of the calls that the run has had before."""
        self._owners: dict[str, _Owner] = dict.fromkeys(taken, _Owner("", True))
        """The calls of the run so far, by id."""
        self._settled: set[str] = set()
        """The ids of those that have a result."""
        self._in_vain = 0
        """How many responses in a row, up to the last one, had only calls that can't run."""
        self._stuck: set[str] = set()
        """The ids of the calls of the last of them that have no result."""
        self._lock = threading.Lock()

    def of_response(self) -> "ResponseIds":
        """The ids of a response that begins."""
        return ResponseIds(self)

    def end(self, message: AIMessage, written: Mapping[str, str]) -> None:
        """Look at a whole response, whose calls have ids of their own, before its graph gets it.

        `written` are the arguments as the model wrote them, by call id, if it streamed: LangChain closes what is cut
        off. Raises ModelError if the run's models make no progress.
        """
        with self._lock:
            unfit = _mark_unfit(message, written)
            for call in message.tool_calls:
                self._owners[call["id"] or ""] = _Owner(message.id or "", True)
            is_in_vain = 0 < len(unfit) == len(message.tool_calls)
            self._in_vain, self._stuck = (self._in_vain + 1, unfit) if is_in_vain else (0, set())
            if self._in_vain >= _IN_VAIN:
                raise _no_progress(self._in_vain)

    def require_answered(self) -> None:
        """The graph has ended. Raises ModelError if that is only because no call of the last response could run."""
        if self._stuck:
            raise _no_progress(self._in_vain)

    def end_of_node(self, update: Any) -> None:
        """Look at the messages that a node writes: it may have made them without a model that the server knows of."""
        if not isinstance(update, Mapping | Command | list | tuple | BaseMessage):
            return
        messages = list(_messages_in(update))
        results = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        with self._lock:
            for message in messages:
                if isinstance(message, AIMessage):
                    self._end_of_made(message, results)
            self._settled |= results
            self._stuck -= results

    def _end_of_made(self, message: AIMessage, results: set[str]) -> None:
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        if self._stuck.isdisjoint(call["id"] or "" for call in calls):
            # The graph has an answer of its own.
            self._stuck = set()
        if not calls:
            return
        message.id = owner = message.id or str(uuid4())
        seen: set[str] = set()
        for call in calls:
            given = call["id"] or ""
            known = self._owners.get(given)
            is_other = known is not None and owner != known.id and (not known.is_response or given in self._settled)
            if not given or given in seen or (is_other and given not in results):
                call["id"] = own = self.take(given, owner)
                _rename_in_blocks(message, given, own)
            elif known is None:
                self._owners[given] = _Owner(owner, False)
            seen.add(call["id"] or "")
        if not seen <= results | self._settled:
            _mark_unfit(message, {})

    def take(self, given: str, owner: str | None = None) -> str:
        """An id like `given` that no call of the run has. `owner` is the message of a node; None: a response."""
        base, number = given or "call", 1
        own, mark = base, _Owner(owner or "", owner is None)
        # By setdefault, because models may run in threads.
        while len(self._owners) < _AT_MOST and self._owners.setdefault(own, mark) is not mark:
            number += 1
            own = f"{base}_{number}"
        return own


class ResponseIds:
    """Gives the calls of one response ids of their own, in place."""

    def __init__(self, calls: ResponseCalls) -> None:
        self._calls = calls
        # The id of each call so far, by its place in the response and the provider's id: a later chunk may repeat it.
        self._named: dict[tuple[object, str], str] = {}
        # The call that is being written at each place, and what has come of the arguments of each.
        self._current: dict[object, str] = {}
        self._pieces: dict[str, list[str]] = {}

    @property
    def written(self) -> dict[str, str]:
        """The arguments of the calls that have streamed, by the call's id."""
        return {own: "".join(pieces) for own, pieces in self._pieces.items()}

    def put_into(self, message: AIMessage) -> None:
        """`message` is the response or a chunk of it."""
        if isinstance(message, AIMessageChunk):
            self._put_into_chunk(message)
        else:
            for place, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
                self._name(message, call, place)

    def _put_into_chunk(self, chunk: AIMessageChunk) -> None:
        is_renamed = False
        for number, call in enumerate(chunk.tool_call_chunks):
            place = number if call["index"] is None else call["index"]
            is_renamed |= self._name(chunk, call, place)
            own = self._current[place] = call["id"] or self._current.get(place, "")
            self._pieces.setdefault(own, []).append(call["args"] or "")
        if is_renamed:
            chunk.init_tool_calls()  # type: ignore[operator]

    def _name(self, message: AIMessage, call: Any, place: int | str) -> bool:
        """Give the call, or the piece of one, its id; return whether that changes it."""
        given = call["id"] or ""
        own = self._own(place, given, begins=bool(call["name"]))
        if own is None or own == call["id"]:
            return False
        _rename_in_blocks(message, given, own)
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
            self._named[key] = nameless or self._calls.take(given)
        return self._named[key]


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
    unfit: dict[str, str] = {}
    for call in message.tool_calls:
        text = written.get(call["id"] or "")
        if is_unfit(call["args"]):
            unfit[call["id"] or ""] = str(call["args"][INVALID])
        elif is_cut or (text and not is_object(text)):
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


def _rename_in_blocks(message: AIMessage, given: str, own: str) -> None:
    for block, key in _blocks_of(message):
        if block[key] == given:
            block[key] = own


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
    elif isinstance(update, Mapping) and "messages" in update:
        yield from _messages_in(update["messages"])
