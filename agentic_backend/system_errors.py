"""The words of system errors: what failed, in a fixed vocabulary, without texts, paths and secrets.

The server's operators and the users of the clients are told them. This module needs nothing but Python.
"""

import errno
import os
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Any, Literal

# The longest text of an exception that is told.
LONGEST_TEXT = 2_000
# The most exceptions that are searched: causes may be a cycle or a tree.
MOST_CAUSES = 100

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
_TLS = re.compile(r"\[SSL: ([A-Z0-9_]{1,80})\]")
_MISMATCH = re.compile(r", certificate is not valid for '([^']{1,253})'")
_HOST = re.compile(r"[\w.:-]{1,253}")
# They name files and directories of certificates, for OpenSSL and httpx, and for requests.
_TRUSTED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


Away = Literal[
    "unreachable",
    "unknown_host",
    "no_answer",
    "tls",
    "certificate",
    "refused_credentials",
    "no_permission",
    "not_found",
    "read_only",
    "full",
    "refuses_writes",
    "server_error",
    "other",
]
"""Why a dependency is away; docs/metrics.md says what each is."""

_AWAY: dict[int, Away] = {
    errno.ECONNREFUSED: "unreachable",
    errno.ECONNRESET: "unreachable",
    errno.ECONNABORTED: "unreachable",
    errno.EPIPE: "unreachable",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.ETIMEDOUT: "no_answer",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EROFS: "read_only",
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
}


# Python's own attributes of an exception: a class of an author's may have others of these names, or raise.
CAUSE: Any = BaseException.__dict__["__cause__"]
CONTEXT: Any = BaseException.__dict__["__context__"]
_TRACEBACK: Any = BaseException.__dict__["__traceback__"]
_MEMBERS: Any = BaseExceptionGroup.__dict__["exceptions"]


def cause_of(error: BaseException) -> BaseException | None:
    """What `error` was raised from."""
    cause: BaseException | None = CAUSE.__get__(error)
    return cause


def traceback_of(error: BaseException) -> TracebackType | None:
    """Where `error` was raised."""
    traceback: TracebackType | None = _TRACEBACK.__get__(error)
    return traceback


def context_of(error: BaseException) -> BaseException | None:
    """What was handled when `error` was raised."""
    context: BaseException | None = CONTEXT.__get__(error)
    return context


def members_of(error: BaseException) -> Sequence[BaseException]:
    """The exceptions of a group; none of another one."""
    members: Sequence[BaseException] = _MEMBERS.__get__(error) if issubclass(type(error), BaseExceptionGroup) else ()
    return members


def causes_of(error: BaseException, most: int = MOST_CAUSES) -> Iterator[BaseException]:
    """`error`, the members of groups, and what caused each of them; the nearest first, each once."""
    seen: set[int] = set()
    waiting = deque([error])
    while waiting and len(seen) < most:
        current = waiting.popleft()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += members_of(current)
        waiting += [cause for cause in (cause_of(current), context_of(current)) if cause is not None]


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


def away_reason_of(error: BaseException, otherwise: Away = "other") -> Away:
    """Why a dependency is away, as the system errors say that `error` comes from; `otherwise` if they don't.

    What the dependency itself answered is for its own room to read.
    """
    causes = list(causes_of(error))
    words = "; ".join(system_words_in(causes))
    if "certificate verify failed" in words:
        return "certificate"
    if "TLS: " in words:
        return "tls"
    for number in map(int, _NUMBER.findall(words)):
        if number < 0:
            return "unknown_host"
        if number in _AWAY:
            return _AWAY[number]
    # Last, as a caller's own timeout says less than what it was waiting for.
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return "no_answer"
    return "unreachable" if any(isinstance(cause, ConnectionError) for cause in causes) else otherwise


def system_words_of(error: BaseException) -> str | None:
    """The words of the system errors that `error` comes from: of the operating system, of OpenSSL, of Python.

    They are of a fixed vocabulary, without hosts and paths, so they may be logged. None if it comes from none.
    """
    return "; ".join(system_words_in(causes_of(error))) or None


def own_words_of(error: BaseException) -> str | None:
    """As `system_words_of`, without looking at the causes."""
    return "; ".join(system_words_in([error])) or None


def system_words_in(causes: Iterable[BaseException]) -> list[str]:
    found: dict[str, None] = {}
    for cause in causes:
        # The class is an author's.
        with suppress(Exception):
            words = _typed_words_of(cause)
            found |= dict.fromkeys([*filter(None, [words]), *_missing_trusted(cause, words or "")])
    return list(found)[:_MOST_WORDS]


def raw_text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        # The class is an author's.
        return ""


def _missing_trusted(error: BaseException, words: str) -> Iterator[str]:
    """Which settings of trusted certificates may be the cause, as what they name does not exist."""
    # OpenSSL's error names no file; to requests, it is one without a number.
    is_unnamed = isinstance(error, FileNotFoundError) and error.filename is None
    is_without_number = isinstance(error, OSError) and error.errno is None
    text = raw_text_of(error)
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
    if isinstance(cause_of(error), OSError):
        # It says more: libraries give an error of TLS its number, which is another one's in the system.
        return None
    if (words := _numbered(getattr(error, "errno", None))) is not None:
        return words
    # Some drivers keep no more of a cause than its text.
    text = raw_text_of(error)[:LONGEST_TEXT]
    if (certificate := _CERTIFICATE.search(text)) is not None:
        return certificate[0]
    if (tls := _TLS.search(text)) is not None:
        return f"TLS: {tls[1].replace('_', ' ').lower()}"
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
