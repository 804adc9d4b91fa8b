"""Removes secrets from log lines: by their form, by their key's name, and by their values (see known_secrets).

Values are found also where a library has cut out their middle, or where escapes hide them (see hidden_forms).

Any code that logs, also a library, may quote a URL, a header or a request. So every log line passes through here.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from agentic_backend.config.yaml.validation_problems import looks_secret
from agentic_backend.disclosure.hidden_forms import Span, hidden, replaced, shown
from agentic_backend.text.normal_form import normal_form

REDACTED = "[redacted]"

_DEEPEST, _MOST_ITEMS = 6, 100

_HEADERS = {"authorization", "proxy-authorization", "cookie", "set-cookie"}
# Names and the parts of a token have a bound, because an unbounded search is quadratic.
_NAMED = r"[\w-]{0,64}?(?:key|token|secret|passw|pwd|signature|credential)[\w-]{0,64}"
# The end of what a library has cut.
_CUT = r"(?:(?:\.{3,}|…)[\w*-]*)?"
_LOOKS = re.compile(
    r"(?i)(\b(?:bearer|basic)\s+"
    rf"|[?&]{_NAMED}="
    r"|\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{0,64}?(?:key|token))[\"']?\s*[:=]\s*[\"']?(?:bearer\s+|basic\s+)?"
    r"|\b(?:password|passwd|client_secret|api[-_]?key|access_token|refresh_token)[\"']?\s*[:=]\s*[\"']?)"
    r"[^\s\"'&,;}\])]+"
    r"|eyJ[\w-]{1,1024}(?:\.[\w-]+\.[\w-]*|(?:\.{3,}|…)[\w.-]*)"
    rf"|\b(?:(?:sk|pk|rk|gh[pousr]|github_pat|glpat|hf|gsk|xai|xox[abpr])[-_][\w*-]{{8,}}"
    rf"|AKIA[0-9A-Z]{{12,}}|AIza[\w-]{{20,}}){_CUT}"
    r"|(?<=/shares/)[\w-]+"
    r"|\bdev:[\w.@-]+(?::\d+)?"
    r"|(?<=://)[^\s/@]+(?=@)"
)


_URL = re.compile(r"(\b[a-zA-Z][\w+.-]{1,20}://[^\s/?#\"'<>]{1,300})[/?#][^\s\"'<>]*")

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


LONGEST_SECRET = 1_000
"""In characters; of a longer one `redacted_start` may show a part."""
LONGEST_TEXT = 100_000
"""In characters, of what is looked through in a fiftieth of a second, during which nothing else runs."""


def redacted_start(text: str, length: int, known: Collection[str] = ()) -> str:
    """The beginning of `text`, redacted: of its first `length` characters at least what a secret has not cut through.

    More than `length` is read, since half a secret can't be found; so the result may be longer too.
    """
    read = redact(text[: length + LONGEST_SECRET], known)
    return read[:-LONGEST_SECRET] if len(text) > length + LONGEST_SECRET else read


def redact(text: str, known: Collection[str] = ()) -> str:
    """`text` without the `known` secrets and without parts that look like a token, a key or a password in a URL."""
    if text.isalnum() and text[:4].lower() not in _PLAIN_LOOKS:
        # Usually an id, of which every log line has some. It hides nothing: it has neither escapes nor an ellipsis.
        if not any(form in text for form in known):
            return text
    elif type(text) is str and len(text) <= _CACHED_LENGTH and isinstance(known, tuple):
        return _redacted_short(text, known)
    return _without_hidden(text, known)


@lru_cache(maxsize=1_024)
def _redacted_short(text: str, known: tuple[str, ...]) -> str:
    """Cached, because messages and names repeat."""
    return _without_hidden(text, known)


def _without_hidden(text: str, known: Collection[str]) -> str:
    return replaced(text, hidden(text, lambda view: (*shown(known, view), *_looks(view))), REDACTED)


def _looks(text: str) -> Iterator[Span]:
    return ((max(match.start(), match.end(1)), match.end()) for match in _LOOKS.finditer(text))


def without_paths(text: str) -> str:
    """`text` whose URLs end behind their host: path and query may have a key in any form."""
    return _URL.sub(r"\1/…", text)


def redacted(value: Any, known: Collection[str] = (), depth: int = 0) -> Any:
    """`value` as JSON types without secrets, also in nested mappings and lists, and without values of secret keys.

    Drops values that are too deep, items beyond _MOST_ITEMS, texts beyond LONGEST_TEXT, and what has no text.
    """
    try:
        return _redacted(value, known, depth)
    except Exception:
        # The class may be anybody's.
        return f"<{type(value).__name__}>"


def _redacted(value: Any, known: Collection[str], depth: int) -> Any:
    if isinstance(value, str):
        return redacted_start(value, LONGEST_TEXT, known)
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping() | list() | tuple() | set() | frozenset() if depth == _DEEPEST:
            return "…"
        case Mapping():
            items = list(value.items())[:_MOST_ITEMS]
            return {redact(str(key), known): _under(str(key), item, known, depth) for key, item in items}
        case list() | tuple() | set() | frozenset():
            return [redacted(item, known, depth + 1) for item in list(value)[:_MOST_ITEMS]]
    return redacted_start(str(value), LONGEST_TEXT, known)


def _under(key: str, value: Any, known: Collection[str], depth: int) -> Any:
    names_secret = _names_secret if len(key) > _CACHED_LENGTH else _short_names_secret
    if isinstance(value, str | bytes) and value and names_secret(key):
        return REDACTED
    return redacted(value, known, depth + 1)


def _names_secret(key: str) -> bool:
    return looks_secret(key) or key.lower() in _HEADERS


_short_names_secret = lru_cache(maxsize=1_024)(_names_secret)


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
