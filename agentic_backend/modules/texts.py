"""The texts that modules search: those of a message's parts, and how a long one is searched."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, assert_never

from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.protocol.parts import (
    CodePart,
    CustomPart,
    FilePart,
    GeoPart,
    ImageUrlPart,
    LinkPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    text_of,
)

Result = TypeVar("Result")


async def search(text: str, look: Callable[[str], Result]) -> Result:
    """`look(text)`, in a thread if the text is long. `look` takes time that is linear in the text's length."""
    return await in_thread_if_long(len(text), look, text)


async def with_texts(parts: Sequence[Part], change: Callable[[str], str]) -> list[Part]:
    """`parts` with all texts and codes changed."""
    changed: list[Part] = []
    for part in parts:
        match part:
            case TextPart(text=text):
                changed.append(part.model_copy(update={"text": await search(text, change)}))
            case CodePart(code=code):
                changed.append(part.model_copy(update={"code": await search(code, change)}))
            case CustomPart(text=text):
                changed.append(_saying(part, await search(text, change)))
            case ImageUrlPart() | ToolCallPart() | ToolResultPart() | LinkPart() | GeoPart() | FilePart():
                changed.append(part)
            case _:
                assert_never(part)
    return changed


def replaced(text: str, places: Iterable[tuple[int, int, str]]) -> str:
    """`text` with other words in `places`, which are in order and don't overlap: start, end and words."""
    pieces: list[str] = []
    done = 0
    for start, end, words in places:
        pieces += text[done:start], words
        done = end
    return "".join([*pieces, text[done:]])


def replaced_in(parts: Sequence[Part], places: Sequence[tuple[int, int, str]]) -> list[Part]:
    """`parts` with other words in places of their `text_of`. What goes on in the next part is replaced in both."""
    changed: list[Part] = []
    begin = 0
    left = deque(places)
    for part in parts:
        end = begin + len(text_of([part]))
        own: list[tuple[int, int, str]] = []
        while left and left[0][0] < end:
            place = left.popleft()
            own.append((max(place[0] - begin, 0), min(place[1], end) - begin, place[2]))
            if place[1] > end:
                left.appendleft(place)
                break
        match part:
            case TextPart(text=text):
                part = part.model_copy(update={"text": replaced(text, own)})
            case CodePart(code=code):
                part = part.model_copy(update={"code": replaced(code, own)})
            case CustomPart(text=text):
                part = _saying(part, replaced(text, own))
            case ImageUrlPart() | ToolCallPart() | ToolResultPart() | LinkPart() | GeoPart() | FilePart():
                pass
            case _:
                assert_never(part)
        changed.append(part)
        if isinstance(part, TextPart | CodePart | ToolResultPart | CustomPart):
            begin = end + 1
    return changed


def _saying(part: CustomPart, text: str) -> Part:
    """The part, or its words alone where they are others: its data may say what they shall not."""
    return part if text == part.text else TextPart(text=text)
