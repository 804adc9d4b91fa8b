"""ExceptionDetail: what an exception tells the author of an agent: its class, its text without secrets, their own line.

And what an operator is told of it: the words of the system error behind it, which are no text of anybody.

An author's line is the innermost one outside the product, Python and installed packages. The agents that ship with the
product count as an author's.
"""

import errno
import linecache
import os
import re
import socket
import ssl
import sys
import sysconfig
import traceback
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import CodeType

from agentic_backend.errors import AgenticError
from agentic_backend.protocol.events import ErrorDetail
from agentic_backend.redaction import LONGEST_SECRET, redacted_start

# The longest text of an exception that is told.
_LONGEST_TEXT = 2_000
# The most exceptions that are searched: causes may be a cycle or a tree.
_MOST_CAUSES = 100

# A name may have two addresses, each with its own error.
_MOST_WORDS = 3
_NO_THREAD = "can't start new thread"
# Those of glibc: Python does not tell them.
_NAME_ERRORS = {
    getattr(socket, name, None): words
    for name, words in {
        "EAI_NONAME": "Name or service not known",
        "EAI_NODATA": "No address associated with hostname",
        "EAI_AGAIN": "Temporary failure in name resolution",
        "EAI_FAIL": "Non-recoverable failure in name resolution",
        "EAI_MEMORY": "Memory allocation failure in name resolution",
    }.items()
}
_NUMBER = re.compile(r"\[Errno (-?\d{1,4})\]")
# What drivers quote of OpenSSL in their texts: its own words, so that nobody else's are taken for them.
_CERTIFICATE = re.compile(
    r"certificate verify failed: (certificate has expired|certificate is not yet valid|certificate revoked"
    r"|self[- ]signed certificate(?: in certificate chain)?|unable to get (?:local )?issuer certificate"
    r"|unable to verify the first certificate|invalid CA certificate|Hostname mismatch|IP address mismatch)"
)
_NO_ISSUER = "unable to get local issuer certificate"
_MISMATCH = re.compile(r", certificate is not valid for '([^']{1,253})'")
_HOST = re.compile(r"[\w.:-]{1,253}")
# They name files and directories of certificates, for OpenSSL and httpx, and for requests.
_TRUSTED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class PlacedError(Exception):
    """A mistake that no line of its author's raised: `code` is the author's function that made it, if it is known."""

    def __init__(self, text: str, code: CodeType | None = None) -> None:
        super().__init__(text)
        self.code = code


_Place = tuple[str, int | None, str]
"""A file, a line and the function."""

_PRODUCT = str(Path(__file__).parent) + os.sep
_SHIPPED_AGENTS = str(Path(__file__).parent / "experts") + os.sep
_PYTHON = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_INSTALLED = ("site-packages", "dist-packages")


def causes_of(error: BaseException, most: int = _MOST_CAUSES) -> Iterator[BaseException]:
    """`error`, the members of groups, and what caused each of them; the nearest first, each once."""
    seen: set[int] = set()
    waiting = deque([error])
    while waiting and len(seen) < most:
        current = waiting.popleft()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions
        waiting += [cause for cause in (current.__cause__, current.__context__) if cause is not None]


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
    text = _raw_text_of(error)
    more = [words for words in _system_words_in(causes_of(error)) if words not in text]
    text = "; ".join(filter(None, (text, *more)))
    told = redacted_start(text, _LONGEST_TEXT, secrets).encode(errors="replace").decode()
    if len(text) > _LONGEST_TEXT + LONGEST_SECRET:
        told += "…"
    return told if len(told) <= _LONGEST_TEXT else told[: _LONGEST_TEXT - 1] + "…"


def summary_of(error: BaseException, *, with_host: bool = True) -> str:
    """What failed, without texts: the class of `error`, the words of the system error behind it, the host if known.

    "ConnectError: [Errno 111] Connection refused (crm.example.com)". `with_host` only for operators, and only where it
    is one that the settings name.
    """
    causes = list(causes_of(error))
    named = next((cause for cause in causes if not isinstance(cause, BaseExceptionGroup)), error)
    words = system_words_of(error)
    if words is None:
        return type(named).__name__
    hosts = (host for cause in causes if with_host and (host := _host_of(cause)) is not None)
    return f"{type(named).__name__}: {words}{''.join(f' ({host})' for host in islice(hosts, 1))}"


def reason_of(error: OSError) -> str:
    """Why a command or the server can't go on: the file or address and the system's words; else as `summary_of`."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else summary_of(error)


def system_words_of(error: BaseException) -> str | None:
    """The words of the system errors that `error` comes from: of the operating system, of OpenSSL, of Python.

    They are of a fixed vocabulary, without hosts and paths, so they may be logged. None if it comes from none.
    """
    return "; ".join(_system_words_in(causes_of(error))) or None


def own_words_of(error: BaseException) -> str | None:
    """As `system_words_of`, without looking at the causes."""
    return "; ".join(_system_words_in([error])) or None


def place_of(error: BaseException, *, full_path: bool = False) -> str | None:
    """The author's own line that `error` comes from, as "file:line in function".

    If no line is an author's, the line that raised it. None if `error` was never raised.
    """
    found = list(causes_of(error))
    # What names its author's function knows best; of a group, the members have the lines that matter.
    found.sort(key=lambda cause: (not isinstance(cause, PlacedError), isinstance(cause, BaseExceptionGroup)))
    places = [place for cause in found if (place := _own_place(cause)) is not None]
    places += [_place_in(frame) for cause in found for frame in traceback.extract_tb(cause.__traceback__)[-1:]]
    if not places:
        return None
    return shown_place(*places[0], full_path=full_path)


def shown_place(file: str, line: int | None, function: str, *, full_path: bool = False) -> str:
    """A line as "file:line in function"."""
    where = f"{file if full_path else _short(file)}:{line}"
    return where if function == "<module>" else f"{where} in {function}"


def frames_of(error: BaseException, most: int) -> list[traceback.FrameSummary]:
    """The innermost frames of `error`, and the innermost of an author's, outermost first."""
    frames = list(traceback.extract_tb(error.__traceback__))
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


def _raw_text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        # The class is an author's.
        return ""


def _system_words_in(causes: Iterable[BaseException]) -> list[str]:
    found: dict[str, None] = {}
    for cause in causes:
        # The class is an author's.
        with suppress(Exception):
            words = _typed_words_of(cause)
            found |= dict.fromkeys([*filter(None, [words]), *_missing_trusted(cause, words or "")])
    return list(found)[:_MOST_WORDS]


def _missing_trusted(error: BaseException, words: str) -> Iterator[str]:
    """Which settings of trusted certificates may be the cause, as what they name does not exist."""
    # OpenSSL's error names no file; to requests, it is one without a number.
    is_unnamed = isinstance(error, FileNotFoundError) and error.filename is None
    is_without_number = isinstance(error, OSError) and error.errno is None
    text = _raw_text_of(error)
    for name in _TRUSTED:
        path = os.environ.get(name)
        is_cause = is_unnamed or words.endswith(_NO_ISSUER) or (is_without_number and path and path in text)
        if path and is_cause and not os.path.exists(path):
            yield f"{name} names a path that does not exist"


def _typed_words_of(error: BaseException) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        told = getattr(error, "verify_message", None)
        return f"certificate verify failed: {_MISMATCH.split(told)[0].rstrip('.')}" if told else None
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None)
        return (
            f"TLS: {reason.replace('_', ' ').lower()}" if reason and re.fullmatch(r"[A-Z0-9_]{1,80}", reason) else None
        )
    if isinstance(error, MemoryError):
        return os.strerror(errno.ENOMEM)
    if isinstance(error, RuntimeError) and error.args == (_NO_THREAD,):
        return _NO_THREAD
    if isinstance(error.__cause__, OSError):
        # It says more: libraries give an error of TLS its number, which is another one's in the system.
        return None
    if (words := _numbered(getattr(error, "errno", None))) is not None:
        return words
    # Some drivers keep no more of a cause than its text.
    text = _raw_text_of(error)[:_LONGEST_TEXT]
    if (certificate := _CERTIFICATE.search(text)) is not None:
        return certificate[0]
    number = _NUMBER.search(text)
    return _numbered(int(number[1])) if number is not None else None


def _numbered(number: object) -> str | None:
    """The words of an `errno`; those of a failed resolution of a name are negative."""
    if not isinstance(number, int):
        return None
    words = _NAME_ERRORS.get(number) if number < 0 else os.strerror(number) if number in errno.errorcode else None
    return f"[Errno {int(number)}] {words}" if words else None


def _host_of(error: BaseException) -> str | None:
    """The host that was asked, as the errors of OpenSSL, httpx and aiohttp know it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        mismatch = _MISMATCH.search(str(getattr(error, "verify_message", "")))
        if mismatch is not None and _HOST.fullmatch(mismatch[1]):
            return mismatch[1]
    # httpx raises where it knows no request.
    with suppress(Exception):
        request = getattr(error, "request", None)
        host = request.url.host if request is not None else getattr(error, "host", None)
        if isinstance(host, str) and _HOST.fullmatch(host):
            return host
    return None


def _subject_of(error: BaseException) -> BaseException | None:
    """The exception that an author knows: what is behind groups and the server's own errors."""
    current = error
    for _ in range(_MOST_CAUSES):
        if isinstance(current, BaseExceptionGroup):
            current = current.exceptions[0]
        elif type(current).__module__.startswith("agentic_backend.") and current.__cause__ is not None:
            current = current.__cause__
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
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_authors(frame.filename)]
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
