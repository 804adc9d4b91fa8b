"""Story: what a log line says of an exception and its causes."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice

from agentic_backend.disclosure.exception_detail import frames_of
from agentic_backend.system_errors import causes_of, own_words_of

_MOST_CAUSES, _MOST_FRAMES, _LONGEST_SOURCE = 8, 12, 200

Told = Callable[[BaseException, Sequence[traceback.FrameSummary]], str]
"""What may be logged of an exception's text, given the frames that are logged with it."""


def story_of(error: BaseException, told: Told | None = None) -> list[dict[str, object]]:
    """`error`, the members of groups, and their causes: types, places, status codes, the words of system errors.

    Their texts are in it as `told` gives them; without it there are none, because they may quote a message or a token.
    """
    story: list[dict[str, object]] = []
    # The class of an exception may be an author's, and raise wherever it is looked at: then this much is told.
    with suppress(Exception):
        for cause in islice(causes_of(error), _MOST_CAUSES):
            story.append({"type": f"{type(cause).__module__}.{type(cause).__qualname__}", "at": []})
            story[-1] |= _entry_of(cause, told)
    return story


def _entry_of(cause: BaseException, told: Told | None) -> dict[str, object]:
    frames = frames_of(cause, _MOST_FRAMES)
    entry: dict[str, object] = {"at": [_place_of(frame, with_source=told is not None) for frame in frames]}
    if told is not None:
        entry["text"] = told(cause, frames)
    if (words := own_words_of(cause)) is not None:
        entry["words"] = words
    for name in ("errno", "status_code"):
        with suppress(Exception):
            if isinstance(number := getattr(cause, name, None), int):
                entry[name] = int(number)
    return entry


def _place_of(frame: traceback.FrameSummary, *, with_source: bool) -> str:
    place = f"{frame.filename}:{frame.lineno} {frame.name}"
    return f"{place}: {frame.line[:_LONGEST_SOURCE]}" if with_source and frame.line else place
