"""RecordedModel: keeps what a provider's model has said in a file, and says it again without a network.

The file is JSON: `{"format": 1, "calls": {DIGEST: {"request": …, "replies": [[CHUNK, …], …]}}}`. The digest is that of
the request: the messages without their ids, the tools and the other options. It holds what was said, and no key.
"""

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

FORMAT = 1
_UNTOLD = (
    "id",
    "response_metadata",
    "usage_metadata",
    "example",
    "artifact",
    "additional_kwargs",
    "invalid_tool_calls",
)
_NOT_OF_THE_REQUEST = frozenset(
    {"api_key", "default_headers", "extra_headers", "extra_query", "headers", "ls_structured_output_format"}
)
"""Options that are no part of what a model is asked, or that may hold a key."""
_LONGEST_SHOWN = 120


class NotRecorded(Exception):
    """The model was asked what is not in its file; the text says what, and where the nearest recording differs."""


def _calls_in(content: bytes) -> dict[str, Any] | None:
    """The calls of a recording; None if it is none."""
    try:
        kept = json.loads(content)
        for call in kept["calls"].values():
            if not isinstance(call["request"]["messages"], list) or not call["replies"] or not all(call["replies"]):
                return None
        return dict(kept["calls"]) if kept["format"] == FORMAT else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


class _File:
    """The recordings of one file; `said` counts the replies of each call that were said, by digest."""

    def __init__(self, path: Path, *, record: bool) -> None:
        """Raises NotRecorded if the file is no recording; with `record` that is replaced."""
        self.path = path
        self.calls: dict[str, Any] = {}
        self.said: Counter[str] = Counter()
        self._lock = threading.Lock()
        if path.exists():
            calls = _calls_in(path.read_bytes())
            if calls is None and not record:
                raise NotRecorded(f"{path} is no recording of format {FORMAT}; record it again.")
            self.calls = calls or {}

    def reply(self, request: Mapping[str, Any]) -> list[AIMessageChunk]:
        """The next reply to the request; the last one again where there are no more. Raises NotRecorded."""
        digest = digest_of(request)
        if digest not in self.calls:
            raise NotRecorded(f"{self.path} has no reply to this call: {self._difference(request)}")
        replies = self.calls[digest]["replies"]
        number = min(self.said[digest], len(replies) - 1)
        self.said[digest] += 1
        return [AIMessageChunk.model_validate(chunk) for chunk in replies[number]]

    def keep(self, request: Mapping[str, Any], chunks: Sequence[AIMessageChunk]) -> None:
        """Any thread may call it: calls of one model may run side by side."""
        with self._lock:
            self._keep(request, chunks)

    def _keep(self, request: Mapping[str, Any], chunks: Sequence[AIMessageChunk]) -> None:
        digest = digest_of(request)
        known = self.calls.setdefault(digest, {"request": request, "replies": []})
        if self.said[digest] == 0:
            # An earlier recording's.
            known["replies"] = []
        self.said[digest] += 1
        known["replies"].append([chunk.model_dump(mode="json") for chunk in chunks])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.with_name(f"{self.path.name}.new")
        written.write_text(json.dumps({"format": FORMAT, "calls": self.calls}, indent=1, ensure_ascii=False) + "\n")
        written.replace(self.path)

    def _difference(self, request: Mapping[str, Any]) -> str:
        """Where the request differs from the recorded one that it begins like."""
        if not self.calls:
            return "nothing is recorded there."
        recorded = [kept["request"] for kept in self.calls.values()]
        nearest = max(recorded, key=lambda other: _equal_messages(request, other))
        place = _equal_messages(request, nearest)
        asked, known = request["messages"], nearest["messages"]
        if place == len(asked) == len(known):
            other = [name for name in sorted({*request, *nearest}) if request.get(name) != nearest.get(name)]
            if not other:
                return "its recording has another digest, as if the file had been edited; record it again."
            return f"its messages are recorded, but with other {' and '.join(other)}."
        return f"message {place} is {_shown(asked, place)}, the nearest recording has {_shown(known, place)}."


class RecordedModel(BaseChatModel):
    """Says what the file at `path` holds. With `record` it asks `model`, and keeps what that says in the file.

    Recording replaces the replies of the calls that are made; those of other calls stay. A call that is not in the file
    raises NotRecorded.
    """

    path: Path
    model: BaseChatModel | None = None
    record: bool = False
    _file: _File = PrivateAttr()

    def __init__(self, path: Path | str, model: BaseChatModel | None = None, *, record: bool = False) -> None:
        if record and model is None:
            raise ValueError("recording needs the model that is to be recorded")
        super().__init__(path=Path(path), model=model, record=record)
        self._file = _File(self.path, record=record)

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = request_of(messages, stop, kwargs)
        if not self.record:
            for chunk in self._file.reply(request):
                yield ChatGenerationChunk(message=chunk)
                await asyncio.sleep(0)
            return
        heard: list[AIMessageChunk] = []
        async for generated in self._asked(messages, stop, kwargs):
            assert isinstance(generated.message, AIMessageChunk)
            heard.append(generated.message)
            yield generated
        await asyncio.to_thread(self._file.keep, request, heard)

    async def _asked(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> AsyncIterator[ChatGenerationChunk]:
        """What the recorded model says, in pieces where it streams. Not by its public methods: the call would be told
        to the callbacks twice.
        """
        assert self.model is not None
        model, options = _with_tools(self.model, options)
        if type(model)._astream is not BaseChatModel._astream:
            async for chunk in model._astream(messages, stop=stop, **options):
                yield chunk
            return
        result = await model._agenerate(messages, stop=stop, **options)
        said = result.generations[0].message
        fields = said.model_dump(exclude={"type"})
        yield ChatGenerationChunk(message=AIMessageChunk(**fields))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, run_manager, **kwargs))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.record:
            # Callers without an event loop are in a thread of their own.
            return asyncio.run(self._agenerate(messages, stop, **kwargs))
        chunks = self._file.reply(request_of(messages, stop, kwargs))
        return generate_from_stream(ChatGenerationChunk(message=chunk) for chunk in chunks)


def request_of(
    messages: Sequence[BaseMessage], stop: Sequence[str] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """What a model is asked, as JSON values, without what differs from run to run."""
    told = {name: value for name, value in options.items() if name not in _NOT_OF_THE_REQUEST and value is not None}
    request = {"messages": [_message(message) for message in messages], "stop": list(stop or ()), **told}
    plain: dict[str, Any] = json.loads(json.dumps(request, default=str, sort_keys=True))
    return plain


def digest_of(request: Mapping[str, Any]) -> str:
    """SHA-256 of a request's JSON, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _message(message: BaseMessage) -> dict[str, Any]:
    fields = message.model_dump(mode="json", exclude=set(_UNTOLD))
    return {name: value for name, value in fields.items() if value not in (None, [], {}, "")}


def _with_tools(model: BaseChatModel, options: dict[str, Any]) -> tuple[BaseChatModel, dict[str, Any]]:
    """The model and the options with the tools as its provider wants them."""
    others = {name: value for name, value in options.items() if name not in ("tools", "tool_choice")}
    if not options.get("tools"):
        return model, others
    chosen = {"tool_choice": options["tool_choice"]} if options.get("tool_choice") is not None else {}
    bound = model.bind_tools(options["tools"], **chosen)
    assert isinstance(bound, RunnableBinding)
    assert isinstance(bound.bound, BaseChatModel)
    return bound.bound, {**others, **bound.kwargs}


def _equal_messages(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """The number of messages from the first one on that are equal."""
    pairs = enumerate(zip(one["messages"], other["messages"], strict=False))
    shorter = min(len(one["messages"]), len(other["messages"]))
    return next((place for place, (mine, theirs) in pairs if mine != theirs), shorter)


def _shown(messages: Sequence[Mapping[str, Any]], place: int) -> str:
    if place >= len(messages):
        return "none"
    shown = json.dumps(messages[place], ensure_ascii=False)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
