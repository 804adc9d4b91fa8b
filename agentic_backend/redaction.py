"""Takes secrets out of what is logged: by how they look, by what they are called, and by what this process was given.

Whoever logs, a library too, may quote a URL, a header or a request: nothing is logged that has not been through here.
"""

import os
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from agentic_backend.validation_problems import looks_secret

REDACTED = "[redacted]"

_SHORTEST = 6
_LONG_SEGMENT = 16
_DEEPEST, _MOST_ITEMS = 6, 100

_HEADERS = {"authorization", "proxy-authorization", "cookie", "set-cookie"}
_NAMED = r"[\w-]*(?:key|token|secret|passw|pwd|signature|credential)[\w-]*"
_LOOKS = re.compile(
    r"(?i)(\b(?:bearer|basic)\s+"
    rf"|[?&]{_NAMED}="
    r"|\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]*(?:key|token))[\"']?\s*[:=]\s*[\"']?(?:bearer\s+|basic\s+)?"
    r"|\b(?:password|passwd|client_secret|api[-_]?key|access_token|refresh_token)[\"']?\s*[:=]\s*[\"']?)"
    r"[^\s\"'&,;}\])]+"
    r"|eyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|\b(?:sk|pk|rk|gh[pousr]|github_pat|glpat|hf|gsk|xai|xox[abpr])[-_][\w-]{8,}"
    r"|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}"
    r"|\bdev:[\w.@-]+(?::\d+)?"
    r"|(?<=://)[^\s/@]+(?=@)"
)


# The only looks that letters and digits alone can have.
_PLAIN_LOOKS = ("akia", "aiza")
_CACHED_LENGTH = 64


def redact(text: str, known: Collection[str] = ()) -> str:
    """`text` without what looks like a token, a key or a password in a URL, and without the `known` secrets."""
    for secret in known:
        text = text.replace(secret, REDACTED)
    if text.isalnum() and text[:4].lower() not in _PLAIN_LOOKS:
        # An id, most of the time: every line of the log has some.
        return text
    return _redact_short(text) if len(text) <= _CACHED_LENGTH else _redact_looks(text)


def _redact_looks(text: str) -> str:
    return _LOOKS.sub(_redact_match, text)


@lru_cache(maxsize=1_024)
def _redact_short(text: str) -> str:
    """Messages, and the names of what they are about, are the same over and over."""
    return _redact_looks(text)


def _redact_match(match: re.Match[str]) -> str:
    return (match[1] or "") + REDACTED


def redacted(value: Any, known: Collection[str] = (), depth: int = 0) -> Any:
    """`value` as JSON has it, without secrets: also within mappings and lists, and by the names of keys.

    What is deeper or longer than a line of a log may be is left out.
    """
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return redact(value, known)
        case Mapping() | list() | tuple() | set() | frozenset() if depth == _DEEPEST:
            return "…"
        case Mapping():
            items = list(value.items())[:_MOST_ITEMS]
            return {redact(str(key), known): _under(str(key), item, known, depth) for key, item in items}
        case list() | tuple() | set() | frozenset():
            return [redacted(item, known, depth + 1) for item in list(value)[:_MOST_ITEMS]]
    return redact(str(value), known)


def _under(key: str, value: Any, known: Collection[str], depth: int) -> Any:
    if isinstance(value, str | bytes) and value and (looks_secret(key) or key.lower() in _HEADERS):
        return REDACTED
    return redacted(value, known, depth + 1)


def secrets_of(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The secrets that a process was given, the longest first: what a variable's name calls so, and what in a URL may
    be one: user and password, the values of its query, and a long part of its path.
    """
    found = {value for name, value in environment.items() if looks_secret(name)}
    for value in environment.values():
        if "://" in value:
            found |= _secrets_of_url(value)
    return sorted((value for value in found if len(value) >= _SHORTEST), key=len, reverse=True)


def _secrets_of_url(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    userinfo = parts.netloc.rpartition("@")[0]
    found = {userinfo, userinfo.partition(":")[2], *(value for _, value in parse_qsl(parts.query))}
    found |= {segment for segment in parts.path.split("/") if _is_like_a_key(segment)}
    return {form for value in found for form in (value, unquote(value), quote(value, safe=""))}


def _is_like_a_key(segment: str) -> bool:
    return len(segment) >= _LONG_SEGMENT and any(map(str.isdigit, segment)) and any(map(str.isalpha, segment))
