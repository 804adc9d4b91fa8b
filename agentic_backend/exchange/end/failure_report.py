"""FailureReport: what the log is told of an exception that ends an exchange.

The text of an exception may quote what people and models said, in any form, which the log must not have. So only those
of its words and numbers are told that stand in the source lines of the traceback, which are the program's, or that are
the system's. At log level `debug` no word is left out. Secrets are left out at every level.
"""

import logging
import re
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from agentic_backend.disclosure.exception_detail import place_of, source_of, text_of
from agentic_backend.system_errors import system_words_of
from agentic_backend.telemetry import story_of

log = logging.getLogger(__name__)

# With the signs that are no letters to Python, but parts of a word in some scripts.
_WORD = re.compile(r"(?:\w|[^\x00-\x7f])+")
_LEFT_OUT = "…"


class FailureReport:
    def __init__(self, secrets: Collection[str]) -> None:
        self._secrets = secrets

    def log_fields(self, error: BaseException) -> Mapping[str, Any]:
        """The fields of the log line: the author's line, and the exception and its causes."""
        return {"where": place_of(error), "exception": story_of(error, self._told)}

    def _told(self, error: BaseException, frames: Sequence[traceback.FrameSummary]) -> str:
        text = text_of(error, self._secrets)
        if log.isEnabledFor(logging.DEBUG):
            return text
        programs = {word for frame in frames for word in _words(source_of(frame))}
        programs.update(_words(system_words_of(error) or ""))
        return _WORD.sub(lambda match: match[0] if match[0].casefold() in programs else _LEFT_OUT, text)


def _words(text: str) -> Iterable[str]:
    return (word.casefold() for word in _WORD.findall(text))
