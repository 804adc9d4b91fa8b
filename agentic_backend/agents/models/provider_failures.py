"""ProviderFailures: what the exception of a model's provider means: who can mend it, and whether a retry may help.

The providers' packages share no classes, and few of them are installed. So an exception is judged by what it carries:
its class's name, its HTTP status, the codes in its body, and last its text. None of that reaches the error's content.
"""

import asyncio
import errno
import math
import re
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.exceptions import ContextOverflowError

from agentic_backend.errors import (
    OTHER,
    AgenticError,
    ContentFiltered,
    ContextTooLong,
    ModelError,
    ModelNotFound,
    ModelQuota,
    ModelRefusedKey,
    ModelTimeout,
)
from agentic_backend.system_errors import cause_of, causes_of

_MOST_READ, _LONGEST_NAME, _LONGEST_WAIT_S = 4_000, 100, 3_600.0
_MOST_CAUSES, _DEEPEST = 5, 5
_CODE_KEYS = {"code", "type", "status", "reason", "quotaid", "innererror"}

_FILTER_CODES = {
    "content_filter",
    "content_filtered",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "safety",
    "prohibited_content",
}
# Texts name a cause only together with what happened: a refused parameter may have the same words in its name.
_FILTER = r"content[ _](?:filter|management policy|filtering policy)"
_FILTERED = r"\b(?:triggered|triggering|blocked|filtered|flagged|violat(?:es|ed|ing|ion))\b"
_FILTER_TEXT = re.compile(
    f"{_FILTER}.{{0,100}}{_FILTERED}|{_FILTERED}.{{0,100}}{_FILTER}|content policy violation", re.S
)
_CONTEXT_CODES = {"context_length_exceeded", "context_window_exceeded", "request_too_large"}
_CONTEXT = r"\bcontext (?:window|length|size|limit)\b"
_EXCEEDED = r"\b(?:exceeds?|exceeded|exceeding|longer than|larger than|too (?:long|large|many))\b"
_CONTEXT_TEXT = re.compile(
    rf"maximum context|{_EXCEEDED}.{{0,60}}{_CONTEXT}|{_CONTEXT}.{{0,60}}{_EXCEEDED}"
    r"|prompt is too long|input is too long|exceeds the maximum number of (?:input )?tokens|too large for model"
    r"|reduce the length of the messages",
    re.S,
)
_QUOTA_CODES = {
    "insufficient_quota",
    "quota_exceeded",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_balance",
}
_QUOTA_TEXT = re.compile(r"credit balance|insufficient (?:balance|credit|quota)|plan and billing|per ?day|monthly")
# Google says "quota" of a rate too; the name of the limit tells them apart.
_RATE_TEXT = re.compile(r"per ?min|per ?second")
_KEY_CODES = {"invalid_api_key", "authentication_error", "api_key_invalid", "unauthenticated"}
_KEY_TEXT = re.compile(r"(?:invalid|incorrect|missing) api[ _-]?key|api[ _-]?key (?:not valid|is (?:invalid|missing))")
_MODEL_CODES = {"model_not_found", "invalid_model", "deploymentnotfound", "model_not_available"}
# The name is in quotes, or has a character that words don't have: "this model temperature is not supported" names none.
_MODEL_NAME = r"(?:[\"'`][^\"'`]{1,100}[\"'`]|(?=[\w.]{0,60}[-/:\d])[\w./:@-]{1,100})"
_MODEL_TEXT = re.compile(
    rf"\bmodel:? {_MODEL_NAME} (?:is |was )?(?:not found|does not exist|not supported)"
    r"|(?:no such|invalid|unknown) model\b(?! param)"
)
_NAMED_RATE_CODES = {"rate_limit_exceeded", "rate_limit_error", "rate_limited"}
# Google gives the last one for a used-up quota too.
_RATE_CODES = {*_NAMED_RATE_CODES, "resource_exhausted"}
# Refusals that say what they mean by their text; None where a response that had begun tells of an error.
_TEXT_STATUSES = (None, 400, 403)
# Others may be for what was asked: a 403 of a firewall, a 500 of a service that a text breaks.
_OUTAGE_STATUSES = (401, 402, 408, 429, 502, 503, 504, 529)
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)
# Classes of httpx, aiohttp, requests, urllib3, redis, pymongo and the providers' packages, and what derives from them.
_OUTAGES = frozenset(
    {
        *("APIConnectionError", "ClientConnectionError", "ConnectionError", "ConnectionFailure", "NetworkError"),
        *("RemoteProtocolError", "ServerSelectionTimeoutError", "Timeout", "TimeoutError", "TimeoutException"),
        *("MaxRetryError", "NewConnectionError"),
    }
)
# What fails before a request is sent, in the same packages.
_UNSENT = frozenset(
    {
        *("ClientConnectorError", "ConnectError", "ConnectTimeout", "ConnectTimeoutError", "ConnectionRefusedError"),
        *("EndpointConnectionError", "LocalProtocolError", "NewConnectionError", "PoolTimeout", "ProxyError"),
        *("UnsupportedProtocol", "gaierror"),
    }
)
# Refusals with these statuses may pass by themselves; others of the client's kind stay.
_PASSING_STATUSES = (408, 409, 425, 429)


@dataclass(frozen=True, slots=True)
class _Report:
    """What an exception and its causes carry; all text is in lower case."""

    classes: Collection[str]
    status: int | None
    codes: Collection[str]
    text: str
    retry_after_s: float | None

    def has(self, codes: Collection[str], text: re.Pattern[str] | None = None) -> bool:
        return any(code in codes for code in self.codes) or (text is not None and text.search(self.text) is not None)

    def says(self, text: re.Pattern[str]) -> bool:
        """Whether it has this text, and a status of which a text tells the cause."""
        return self.status in _TEXT_STATUSES and text.search(self.text) is not None

    def is_class(self, *parts: str) -> bool:
        return any(part in name for name in self.classes for part in parts)


def typed_failure(error: BaseException, model: str = "", *, kind: str = "language model") -> AgenticError:
    """The typed error for the exception of a call of `model`, in words that say what to do; `kind` says what it is."""
    report = _report_of(error)
    named = f" '{model[:_LONGEST_NAME]}'" if model else ""
    cause = _kind_of(error, report)
    if cause is ModelError:
        return _unnamed(report, f"{kind}{named}", is_named=bool(named))
    return cause(_WORDS[cause].format(model=f"{kind}{named}"))


def failure_type(error: BaseException) -> str:
    """What kind of failure the exception of a model call is, in few words: the `error_type` of the metrics.

    The code of the typed error, or why that is a ModelError; `cut` if the caller no longer waited for the call.
    """
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "cut"
    if isinstance(error, AgenticError):
        return error.code
    report = _report_of(error)
    kind = _kind_of(error, report)
    return kind.code if kind is not ModelError else _unnamed_type(report)


def is_timeout(error: BaseException) -> bool:
    """Whether `error` is a timeout, of the provider or of a caller."""
    # Providers' own timeout errors (openai.APITimeoutError, httpx.ReadTimeout, …) share no base class.
    return isinstance(error, TimeoutError) or "Timeout" in type(error).__name__


def is_lasting(error: BaseException) -> bool:
    """Whether a repetition of the same call must fail in the same way."""
    return not typed_failure(error).retryable


def may_have_cost(error: BaseException) -> bool:
    """Whether the provider may have worked on a call that has failed with `error` before it gave anything.

    So it was cut, or it timed out or lost its connection once that stood. A refusal costs nothing, nor does what is not
    known.
    """
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return True
    causes = list(_explicit_causes(error))
    names = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    if names & _UNSENT or any(_status_of(cause) is not None for cause in causes):
        return False
    return bool(names & _OUTAGES) or any(map(is_timeout, causes))


def is_outage(error: BaseException) -> bool:
    """Whether a neighbour was away, overloaded, or refused the server's key.

    Judged by classes and HTTP statuses of `error` and its causes, never by texts, which may quote what was asked. What
    is not known is no outage.
    """
    return any(_is_of_outage(cause) for cause in causes_of(error))


def _is_of_outage(error: BaseException) -> bool:
    if isinstance(error, AgenticError):
        return error.whose == "external" and (error.retryable or isinstance(error, ModelQuota | ModelRefusedKey))
    if isinstance(error, TimeoutError | ConnectionError | socket.gaierror):
        return True
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return True
    return _status_of(error) in _OUTAGE_STATUSES or any(kind.__name__ in _OUTAGES for kind in type(error).__mro__)


def tells_of_quota(body: Any) -> bool:
    """Whether the body of a provider's refusal says that its quota is used up."""
    return _is_quota(_Report((), 429, list(_codes_in(body)), str(body)[:_MOST_READ].lower(), None))


_WORDS: dict[type[AgenticError], str] = {
    ModelTimeout: "The {model} did not answer in time; try again.",
    ContentFiltered: "The provider of the {model} filtered the content; say it in other words.",
    ContextTooLong: "The conversation is too long for the {model}; send less, or begin a new session.",
    ModelQuota: "The quota at the provider of the {model} is used up; an operator has to raise it.",
    ModelRefusedKey: "The provider of the {model} refused the server's key; an operator has to set another.",
    ModelNotFound: "The provider has no {model}; an operator has to correct its name or get access to it.",
}


def _kind_of(error: BaseException, report: _Report) -> type[AgenticError]:
    """The class of the typed error. Codes that name a cause come before statuses, which several causes share."""
    if is_timeout(error) or report.status in (408, 504):
        return ModelTimeout
    if report.is_class("contentfilter") or report.has(_FILTER_CODES) or report.says(_FILTER_TEXT):
        return ContentFiltered
    if _is_too_long(error, report):
        return ContextTooLong
    if _is_quota(report):
        return ModelQuota
    if report.has(_KEY_CODES, _KEY_TEXT) or report.status == 401:
        return ModelRefusedKey
    if report.has(_MODEL_CODES) or report.status == 404 or (report.status == 400 and report.has((), _MODEL_TEXT)):
        return ModelNotFound
    return ModelRefusedKey if report.status == 403 else ModelError


def _is_too_long(error: BaseException, report: _Report) -> bool:
    if isinstance(error, ContextOverflowError) or report.status == 413:
        return True
    return report.status != 429 and (report.has(_CONTEXT_CODES) or report.says(_CONTEXT_TEXT))


def _is_quota(report: _Report) -> bool:
    if report.status == 402 or report.has(_QUOTA_CODES):
        return True
    if report.has(_NAMED_RATE_CODES):
        # A limit by the day is one too: it passes, often within minutes.
        return False
    is_rate = _RATE_TEXT.search(report.text) is not None
    return report.status in (400, 403, 429) and not is_rate and report.has((), _QUOTA_TEXT)


def _unnamed_type(report: _Report) -> str:
    """A rate limit, a broken connection or an overload, which may pass by themselves; or a refusal that will not."""
    if report.status == 429 or report.has(_RATE_CODES) or report.is_class("ratelimit"):
        return "rate_limited"
    if report.is_class("connect", "networkerror"):
        return "unreachable"
    if report.status is None:
        return OTHER
    return "request_refused" if report.status < 500 else "server_error"


def _unnamed(report: _Report, model: str, *, is_named: bool) -> ModelError:
    found = _unnamed_type(report)
    if found == "rate_limited":
        wait_s = report.retry_after_s
        when = f"in {math.ceil(wait_s)} seconds" if wait_s else "in a moment"
        return ModelError(f"The provider limits the calls of the {model}; try again {when}.", retry_after_s=wait_s)
    if found == "unreachable":
        return ModelError(f"The provider of the {model} can't be reached; try again in a moment.")
    if found == "request_refused":
        content = f"The provider of the {model} refused the request with status {report.status}."
        return ModelError(content, retryable=report.status in _PASSING_STATUSES)
    return ModelError(f"The {model} failed; try again in a moment." if is_named else None)


def _report_of(error: BaseException) -> _Report:
    causes = list(_explicit_causes(error))
    statuses = [status for cause in causes if (status := _status_of(cause)) is not None]
    codes = {code for cause in causes for code in _codes_of(cause)}
    text = " ".join(_text_of(cause) for cause in causes).lower()
    waits = [wait_s for cause in causes if (wait_s := _retry_after_of(cause)) is not None]
    classes = {kind.__name__.lower() for cause in causes for kind in type(cause).__mro__}
    return _Report(classes, statuses[0] if statuses else None, codes, text, waits[0] if waits else None)


def _explicit_causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it was raised from: packages wrap the errors of their clients."""
    current: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if current is None:
            return
        yield current
        current = cause_of(current)


def _status_of(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    for value in (
        getattr(error, "status_code", None),
        getattr(error, "code", None),
        getattr(response, "status_code", None),
    ):
        if isinstance(value, int) and 400 <= value < 600:
            return int(value)
    return None


def _codes_of(error: BaseException) -> Iterator[str]:
    for name in ("code", "type", "status"):
        if isinstance(value := getattr(error, name, None), str):
            yield value.lower()
    for name in ("body", "details"):
        yield from _codes_in(getattr(error, name, None))


def _codes_in(body: Any, depth: int = 0) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(body, Mapping):
        for key, value in list(body.items())[: _DEEPEST * 10]:
            if isinstance(value, str) and str(key).lower() in _CODE_KEYS:
                yield value.lower()
            yield from _codes_in(value, depth + 1)
    elif isinstance(body, list):
        for item in body[:_DEEPEST]:
            yield from _codes_in(item, depth + 1)


def _text_of(error: BaseException) -> str:
    text = ""
    # The classes are the packages'; the body of a streamed response may not have been read.
    with suppress(Exception):
        text = str(error)[:_MOST_READ]
    with suppress(Exception):
        text += " " + str(error.response.text)[:_MOST_READ]  # type: ignore[attr-defined]
    return text


def _retry_after_of(error: BaseException) -> float | None:
    """The seconds after which the provider wants the next call."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    with suppress(AttributeError, TypeError, ValueError):
        wait_s = float(headers.get("retry-after"))  # type: ignore[union-attr]
        return min(wait_s, _LONGEST_WAIT_S) if wait_s > 0 else None
    return None
