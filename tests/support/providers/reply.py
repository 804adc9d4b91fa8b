"""What a provider is told to answer, and the dialect that it answers in."""

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
    """A call of a tool; `arguments` is JSON."""

    id: str
    name: str
    arguments: str

    @property
    def pieces(self) -> tuple[str, str]:
        middle = len(self.arguments) // 2
        return self.arguments[:middle], self.arguments[middle:]


@dataclass
class Reply:
    """What a request is answered with.

    After `hang_after` words it falls silent, after `cut_after` words its connection breaks, after `error_after` words
    the response tells of an error. `cut_before_words` has it broken once the response has begun: after so many writes,
    the first of which has no word.
    """

    text: str = ""
    calls: list[ToolUse] = field(default_factory=list)
    status: int = 200
    pause_s: float = 0.0
    hang_after: int | None = None
    cut_after: int | None = None
    cut_before_words: int | None = None
    error_after: int | None = None

    async def words(self) -> AsyncIterator[str]:
        for place, word in enumerate(self.text.split(" ") if self.text else ()):
            if self.error_after == place:
                return
            if self.hang_after == place:
                await asyncio.Event().wait()
            await asyncio.sleep(self.pause_s)
            yield word if place == 0 else f" {word}"


def calls(**arguments: dict[str, Any]) -> Reply:
    """A reply that calls each tool with its arguments."""
    return Reply(calls=[ToolUse(f"call_{name}", name, json.dumps(args)) for name, args in arguments.items()])


@dataclass
class Asked:
    """A request in any dialect. Of `messages` a call has its `id`, and a tool's result the `tool_call_id`."""

    system: str
    messages: list[dict[str, Any]]
    tools: list[str]


class Dialect(Protocol):
    path: str
    model: str

    def asked(self, body: dict[str, Any]) -> Asked: ...

    def writes(self, reply: Reply) -> AsyncIterator[str]:
        """The streamed response, the first write of which has no word."""
        ...

    def whole(self, reply: Reply) -> dict[str, Any]:
        """The response that is not streamed, without calls."""
        ...

    def refusal(self, told: str) -> dict[str, Any]: ...


def event(payload: dict[str, Any], name: str | None = None) -> str:
    """A server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(payload)}\n\n"


def text_in(content: str | list[dict[str, Any]]) -> str:
    """The text of a message that a provider is sent, as a string or in blocks."""
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
