"""FailureReport: what the log is told of an exception that ends an exchange.

The text of an exception may quote what people and models said, which the log must not have. So each of its words that a
message of the exchange or of its history has too is left out, unless it stands in the source lines of the traceback:
those words are the program's. At log level `debug` no word is left out. Secrets are left out at every level.
"""

import logging
import re
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from agentic_backend.exception_detail import place_of, source_of, text_of
from agentic_backend.telemetry import story_of

log = logging.getLogger(__name__)

_WORD = re.compile(r"\w{3,}")
_LEFT_OUT = "…"
# Characters of messages whose words are collected. Beyond that every word may be one of theirs.
_MOST_READ = 1_000_000


class FailureReport:
    def __init__(self, secrets: Collection[str], texts: Iterable[str]) -> None:
        self._secrets = secrets
        self._texts = texts
        """What people and models said in the exchange and before it."""

    def log_fields(self, error: BaseException) -> Mapping[str, Any]:
        """The fields of the log line: the author's line, and the exception and its causes."""
        return {"where": place_of(error), "exception": story_of(error, self._told)}

    def _told(self, error: BaseException, frames: Sequence[traceback.FrameSummary]) -> str:
        text = text_of(error, self._secrets)
        if log.isEnabledFor(logging.DEBUG):
            return text
        programs = {word for frame in frames for word in _words(source_of(frame))}

        def told(match: re.Match[str]) -> str:
            word = match[0].casefold()
            return match[0] if word in programs or not self._is_said(word) else _LEFT_OUT

        return _WORD.sub(told, text)

    def _is_said(self, word: str) -> bool:
        return self._said is None or word in self._said

    @cached_property
    def _said(self) -> Collection[str] | None:
        """The words of the messages; None if they can't be known."""
        words: set[str] = set()
        rest = _MOST_READ
        try:
            for text in self._texts:
                rest -= len(text)
                if rest < 0:
                    return None
                words.update(_words(text))
        except Exception:
            # A graph may leave values of an author's classes, which raise, or that contain themselves.
            return None
        return words


def strings_in(value: object) -> Iterable[str]:
    """All strings in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from strings_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings_in(item)
    elif value is not None:
        yield str(value)


def _words(text: str) -> Iterable[str]:
    return (word.casefold() for word in _WORD.findall(text))
