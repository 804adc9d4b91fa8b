"""The texts that modules search: those of a message's parts, and how a long one is searched."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from agentic_backend.protocol.parts import CodePart, Part, TextPart

Result = TypeVar("Result")

# A search of a longer text could be felt by others in the event loop.
_LONGEST_IN_LOOP = 4_096


async def search(text: str, look: Callable[[str], Result]) -> Result:
    """`look(text)`, in a thread if the text is long. `look` takes time that is linear in the text's length."""
    return look(text) if len(text) <= _LONGEST_IN_LOOP else await asyncio.to_thread(look, text)


async def with_texts(parts: Sequence[Part], change: Callable[[str], str]) -> list[Part]:
    """`parts` with all texts and codes changed."""
    changed: list[Part] = []
    for part in parts:
        match part:
            case TextPart(text=text):
                changed.append(part.model_copy(update={"text": await search(text, change)}))
            case CodePart(code=code):
                changed.append(part.model_copy(update={"code": await search(code, change)}))
            case _:
                changed.append(part)
    return changed
