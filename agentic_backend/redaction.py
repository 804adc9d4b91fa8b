"""Removes secrets from log lines: by their form, by their key's name, and by the values in the environment.

Any code that logs, also a library, may quote a URL, a header or a request. So every log line passes through here.
"""

import os
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from agentic_backend.config.validation_problems import looks_secret
from agentic_backend.normal_form import normal_form

REDACTED = "[redacted]"

# The working directories of a shell, whose names look like those of passwords.
_DIRECTORIES = ("PWD", "OLDPWD")
# A shorter secret may occur in any text, and is not redacted.
SHORTEST_SECRET = 6
_LONG_SEGMENT = 16
_DEEPEST, _MOST_ITEMS = 6, 100

_HEADERS = {"authorization", "proxy-authorization", "cookie", "set-cookie"}
# Names and the parts of a token have a bound, because an unbounded search is quadratic.
_NAMED = r"[\w-]{0,64}?(?:key|token|secret|passw|pwd|signature|credential)[\w-]{0,64}"
_LOOKS = re.compile(
    r"(?i)(\b(?:bearer|basic)\s+"
    rf"|[?&]{_NAMED}="
    r"|\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{0,64}?(?:key|token))[\"']?\s*[:=]\s*[\"']?(?:bearer\s+|basic\s+)?"
    r"|\b(?:password|passwd|client_secret|api[-_]?key|access_token|refresh_token)[\"']?\s*[:=]\s*[\"']?)"
    r"[^\s\"'&,;}\])]+"
    r"|eyJ[\w-]{1,1024}\.[\w-]+\.[\w-]*"
    r"|\b(?:sk|pk|rk|gh[pousr]|github_pat|glpat|hf|gsk|xai|xox[abpr])[-_][\w*-]{8,}"
    r"|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}"
    r"|(?<=/shares/)[\w-]+"
    r"|\bdev:[\w.@-]+(?::\d+)?"
    r"|(?<=://)[^\s/@]+(?=@)"
)


_CREDENTIAL = re.compile(
    r"token|passw|passphrase|passcode|pwd|secret|credential|authori[sz]ation|cookie|bearer|jwt"
    r"|(?:api|access|private|secret|signing|encryption|session|auth)key|^auth$|sessionid"
)
_NO_CREDENTIAL = re.compile(
    r"(?:max|total|input|output|prompt|completion)(?:new|input|output)?tokens"
    r"|tokens?(?:count|limit|usage|used|budget)|tokeni[sz]er"
)

# The prefixes of the only secrets that consist of letters and digits alone.
_PLAIN_LOOKS = ("akia", "aiza")
_CACHED_LENGTH = 64


def redact(text: str, known: Collection[str] = ()) -> str:
    """`text` without the `known` secrets and without parts that look like a token, a key or a password in a URL."""
    for secret in known:
        text = text.replace(secret, REDACTED)
    if text.isalnum() and text[:4].lower() not in _PLAIN_LOOKS:
        # Usually an id; every log line has some.
        return text
    return _redact_short(text) if len(text) <= _CACHED_LENGTH else _redact_looks(text)


def _redact_looks(text: str) -> str:
    return _LOOKS.sub(_redact_match, text)


@lru_cache(maxsize=1_024)
def _redact_short(text: str) -> str:
    """Cached, because messages and names repeat."""
    return _redact_looks(text)


def _redact_match(match: re.Match[str]) -> str:
    return (match[1] or "") + REDACTED


def redacted(value: Any, known: Collection[str] = (), depth: int = 0) -> Any:
    """`value` as JSON types without secrets, also in nested mappings and lists, and without values of secret keys.

    Drops values that are too deep, and items beyond _MOST_ITEMS.
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


def credential_in(value: Any) -> str | None:
    """The first key in the JSON `value` that names a credential; None if there is none."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if _names_credential(key) and not isinstance(item, bool | None):
                return str(key)
            if (found := credential_in(item)) is not None:
                return found
    elif isinstance(value, list):
        return next((found for item in value if (found := credential_in(item)) is not None), None)
    return None


def _names_credential(key: str) -> bool:
    letters = re.sub(r"[^a-z]", "", normal_form("NFKC", key).casefold())
    return _CREDENTIAL.search(letters) is not None and _NO_CREDENTIAL.fullmatch(letters) is None


def secrets_of(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The secrets in an environment, longest first: the values of variables with a secret's name, and from URLs the
    user and password, the query's values, and path segments that look like a key.
    """
    found = {value for name, value in environment.items() if looks_secret(name) and name not in _DIRECTORIES}
    for value in environment.values():
        if "://" in value:
            found |= _secrets_of_url(value)
    return sorted((value for value in found if len(value) >= SHORTEST_SECRET), key=len, reverse=True)


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
