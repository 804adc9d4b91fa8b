"""ExceptionDetail: what an exception tells the author of an agent: its class, its text without secrets, their own line.

An author's line is the innermost one outside the product, Python and installed packages. The agents that ship with the
product count as an author's.
"""

import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import CodeType

from agentic_backend.disclosure.redaction import LONGEST_SECRET, redacted_start
from agentic_backend.errors import AgenticError
from agentic_backend.protocol.events import ErrorDetail
from agentic_backend.system_errors import (
    LONGEST_TEXT,
    MOST_CAUSES,
    cause_of,
    causes_of,
    members_of,
    raw_text_of,
    system_words_in,
    traceback_of,
)


class PlacedError(Exception):
    """A mistake that no line of its author's raised: `code` is the author's function that made it, if it is known."""

    def __init__(self, text: str, code: CodeType | None = None) -> None:
        super().__init__(text)
        self.code = code


_Place = tuple[str, int | None, str]
"""A file, a line and the function."""

_PRODUCT = str(Path(__file__).parents[1]) + os.sep
_SHIPPED_AGENTS = str(Path(__file__).parents[1] / "experts") + os.sep
_PYTHON = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_INSTALLED = ("site-packages", "dist-packages")


def detail_of(error: BaseException, secrets: Collection[str] = ()) -> ErrorDetail | None:
    """What the author is told of `error`; None if it is one of the server's own errors that nothing caused."""
    subject = _subject_of(error)
    if subject is None:
        return None
    return ErrorDetail(type=type_of(subject), text=text_of(subject, secrets), where=place_of(error) or "")


def type_of(error: BaseException) -> str:
    """The qualified name of its class; built-in classes have no module."""
    module, name = type(error).__module__, type(error).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


def text_of(error: BaseException, secrets: Collection[str] = ()) -> str:
    """The text of `error` without secrets, and the words of the system error behind it; at most 2000 characters."""
    text = raw_text_of(error)
    more = [words for words in system_words_in(causes_of(error)) if words not in text]
    text = "; ".join(filter(None, (text, *more)))
    told = redacted_start(text, LONGEST_TEXT, secrets).encode(errors="replace").decode()
    if len(text) > LONGEST_TEXT + LONGEST_SECRET:
        told += "…"
    return told if len(told) <= LONGEST_TEXT else told[: LONGEST_TEXT - 1] + "…"


def place_of(error: BaseException, *, full_path: bool = False) -> str | None:
    """The author's own line that `error` comes from, as "file:line in function".

    If no line is an author's, the line that raised it. None if `error` was never raised.
    """
    found = list(causes_of(error))
    # What names its author's function knows best; of a group, the members have the lines that matter.
    found.sort(key=lambda cause: (not isinstance(cause, PlacedError), isinstance(cause, BaseExceptionGroup)))
    places = [place for cause in found if (place := _own_place(cause)) is not None]
    places += [_place_in(frame) for cause in found for frame in traceback.extract_tb(traceback_of(cause))[-1:]]
    if not places:
        return None
    return shown_place(*places[0], full_path=full_path)


def shown_place(file: str, line: int | None, function: str, *, full_path: bool = False) -> str:
    """A line as "file:line in function"."""
    where = f"{file if full_path else _short(file)}:{line}"
    return where if function == "<module>" else f"{where} in {function}"


def frames_of(error: BaseException, most: int) -> list[traceback.FrameSummary]:
    """The innermost frames of `error`, and the innermost of an author's, outermost first."""
    frames = list(traceback.extract_tb(traceback_of(error)))
    own = {id(frame) for frame in [frame for frame in frames if is_authors(frame.filename)][-most:]}
    last = {id(frame) for frame in frames[-most:]}
    return [frame for frame in frames if id(frame) in own | last]


def source_of(frame: traceback.FrameSummary) -> str:
    """The source of the statement that a frame is at, all its lines."""
    first = frame.lineno or 0
    last = getattr(frame, "end_lineno", None) or first
    return "".join(linecache.getline(frame.filename, line) for line in range(first, min(last, first + 20) + 1)).strip()


def is_authors(file: str) -> bool:
    """Whether a source file is an author's: not Python's, the product's or an installed package's."""
    if file.startswith("<") or any(part in _INSTALLED for part in Path(file).parts):
        return False
    return not file.startswith(_PYTHON) and (not file.startswith(_PRODUCT) or file.startswith(_SHIPPED_AGENTS))


def _subject_of(error: BaseException) -> BaseException | None:
    """The exception that an author knows: what is behind groups and the server's own errors."""
    current = error
    for _ in range(MOST_CAUSES):
        if isinstance(current, BaseExceptionGroup):
            current = members_of(current)[0]
        elif type(current).__module__.startswith("agentic_backend.") and (cause := cause_of(current)) is not None:
            current = cause
        else:
            break
    # The error without a cause says everything itself.
    return None if isinstance(current, AgenticError) else current


def _own_place(error: BaseException) -> _Place | None:
    """The innermost of an author's lines in the traceback of `error`."""
    if isinstance(error, SyntaxError) and error.filename is not None and is_authors(error.filename):
        return error.filename, error.lineno, "<module>"
    if isinstance(error, PlacedError) and error.code is not None:
        return error.code.co_filename, error.code.co_firstlineno, error.code.co_name
    own = [frame for frame in traceback.extract_tb(traceback_of(error)) if is_authors(frame.filename)]
    return _place_in(own[-1]) if own else None


def _place_in(frame: traceback.FrameSummary) -> _Place:
    return frame.filename, frame.lineno, frame.name


def _short(file: str) -> str:
    """The path relative to the working directory, else to the nearest directory of modules, else the file's name."""
    above = sorted(map(Path, filter(None, sys.path)), key=lambda path: -len(path.parts))
    # The working directory may have been removed.
    with suppress(OSError):
        above.insert(0, Path.cwd())
    for directory in above:
        if Path(file).is_relative_to(directory) and directory.parts[1:]:
            return str(Path(file).relative_to(directory))
    return Path(file).name
