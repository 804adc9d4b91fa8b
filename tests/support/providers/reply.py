"""A provider's configured reply, and the dialect of the answer."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

FAULT = "not now"
INPUT_TOKENS, OUTPUT_TOKENS = 5, 7
USAGE = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}


@dataclass(frozen=True)
class ToolUse:
    """A tool call; `arguments` is JSON."""

    id: str
    name: str
    arguments: str

    @property
    def pieces(self) -> tuple[str, str]:
        middle = len(self.arguments) // 2
        return self.arguments[:middle], self.arguments[middle:]


@dataclass
class Reply:
    """The answer to a request, which begins after `late_s`. Only Chat Completions say `declines`, as a model's refusal.

    After `hang_after` words it falls silent, after `cut_after` words its connection breaks, after `error_after` words
    the response reports an error. `cut_before_words` breaks a started response after this number of writes; the first
    write contains no word. `refusal` is the body for another status than 200, in place of one that quotes the key and
    the request; `headers` come with it. With `go_on`, the words after the first wait until it is set. `at_limit` says
    that the answer was cut off at the model's limit of tokens.
    """

    text: str = ""
    declines: str = ""
    calls: list[ToolUse] = field(default_factory=list)
    status: int = 200
    refusal: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str | None = "stop"
    late_s: float = 0.0
    pause_s: float = 0.0
    hang_after: int | None = None
    cut_after: int | None = None
    cut_before_words: int | None = None
    error_after: int | None = None
    go_on: asyncio.Event | None = None
    at_limit: bool = False

    async def words(self) -> AsyncIterator[str]:
        for place, word in enumerate(self.text.split(" ") if self.text else ()):
            if self.error_after == place:
                return
            if self.hang_after == place:
                await asyncio.Event().wait()
            if self.go_on and place > 0:
                await self.go_on.wait()
            await asyncio.sleep(self.pause_s)
            yield word if place == 0 else f" {word}"


def calls(**arguments: dict[str, Any]) -> Reply:
    """A reply that calls each tool with its arguments."""
    return Reply(calls=[ToolUse(f"call_{name}", name, json.dumps(args)) for name, args in arguments.items()])


@dataclass
class Asked:
    """A request in any dialect. In `messages` a call has its `id`, and a tool result its `tool_call_id`."""

    system: str
    messages: list[dict[str, Any]]
    tools: list[str]


class Dialect(Protocol):
    path: str
    model: str

    def asked(self, body: dict[str, Any]) -> Asked: ...

    def writes(self, reply: Reply) -> AsyncIterator[str]:
        """The streamed response; its first write contains no word."""
        ...

    def whole(self, reply: Reply) -> dict[str, Any]:
        """The unstreamed response, without calls."""
        ...

    def refusal(self, told: str) -> dict[str, Any]: ...


def event(payload: dict[str, Any], name: str | None = None) -> str:
    """A server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(payload)}\n\n"


def text_in(content: str | list[dict[str, Any]]) -> str:
    """The text of a request's message, which is a string or a list of blocks."""
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
