"""Credentials: what one MCP server was sent to prove who asks, and what must not come back from it.

Each session with a server has one. Servers repeat what they are sent, in tools that show headers and in errors; so each
value is replaced in all that they say, as it is and as it looks URL-encoded, in base64 or in hex. What is not found: a
value that is compressed, encrypted, turned around, spaced out, or within the pixels of an image.
"""

import base64
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import orjson

from agentic_backend.validation_problems import looks_secret

REDACTED = "[redacted]"

# A shorter value is a word that stands anywhere.
_SHORTEST = 6
# A token is renewed every few minutes, and those before it have expired.
_MOST = 8
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|apikey)\s+")
_LONGEST_JOINED = 1_000_000


class Credentials:
    def __init__(self, values: Iterable[str] = ()) -> None:
        self._fixed = [form for value in values for form in _forms(value)]
        """The forms of those that never change."""
        self._sent: OrderedDict[str, list[str]] = OrderedDict()
        """The forms of each token that was sent, the latest last."""

    def add(self, value: str) -> None:
        """Note a token that is sent."""
        if value in self._sent:
            self._sent.move_to_end(value)
            return
        self._sent[value] = _forms(value)
        if len(self._sent) > _MOST:
            self._sent.popitem(last=False)

    def redacted(self, value: Any) -> bytes:
        """The JSON of `value` without credentials, which may be parted among its content blocks too.

        Raises ValueError where `value` can't be JSON.
        """
        forms = self._forms()
        if not forms:
            return _dumped(value)
        _redact_across_blocks(value, forms)
        # Each text has one form in what is written here, whatever escapes the server wrote it with.
        data = _dumped(value)
        for form in forms:
            escaped = orjson.dumps(form)[1:-1]
            if escaped in data:
                data = data.replace(escaped, REDACTED.encode())
        return data

    def redacted_text(self, text: str) -> str:
        for form in self._forms():
            text = text.replace(form, REDACTED)
        return text

    def _forms(self) -> list[str]:
        """All forms, the longest first: one may be a part of another."""
        forms = [*self._fixed, *(form for sent in self._sent.values() for form in sent)]
        return sorted(set(forms), key=len, reverse=True)


def of_header(value: str) -> list[str]:
    """The credentials in the value of a header: all of it, and what follows its scheme."""
    return [value, _SCHEME.sub("", value, count=1)]


def of_url(url: str) -> list[str]:
    """The credentials in a URL: user and password, and the query's values whose names look secret."""
    parts = urlsplit(url)
    userinfo = parts.netloc.rpartition("@")[0]
    password = userinfo.partition(":")[2]
    queried = [value for name, value in parse_qsl(parts.query) if looks_secret(name)]
    return [value for value in (unquote(userinfo), userinfo, unquote(password), password, *queried) if value]


def of_environment(environment: Mapping[str, str]) -> list[str]:
    """The credentials in the environment of a process: what a name calls secret, and what stands in a URL."""
    secret = [value for name, value in environment.items() if looks_secret(name)]
    urls = [found for value in environment.values() if "://" in value for found in of_url(value)]
    return [*secret, *urls]


def _forms(value: str) -> list[str]:
    if len(value) < _SHORTEST:
        return []
    raw = value.encode(errors="replace")
    forms = {value, quote(value, safe=""), quote(value), quote_plus(value), raw.hex(), raw.hex().upper()}
    forms |= {re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in forms}
    for before in range(3):
        # The characters at either end depend on what stands beside the value.
        whole = (len(raw) + before) // 3 * 3 - before
        encoded = base64.b64encode(bytes(before) + raw[:whole]).decode()[4 if before else 0 :]
        forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return [form for form in forms if len(form) >= _SHORTEST]


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # It knows no integer beyond 64 bits.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _redact_across_blocks(value: Any, forms: Sequence[str]) -> None:
    """Replace, in place, what begins in one text block of a result and ends in another."""
    result = value.get("result") if isinstance(value, dict) else None
    content = result.get("content") if isinstance(result, dict) else None
    blocks = [block for block in content if _has_text(block)] if isinstance(content, list) else []
    if len(blocks) < 2 or sum(len(block["text"]) for block in blocks) > _LONGEST_JOINED:
        return
    for form in forms:
        joined = "".join(block["text"] for block in blocks)
        at = joined.rfind(form)
        # From the end, since what is replaced moves all that follows.
        while at >= 0:
            _blank(blocks, at, at + len(form))
            at = joined.rfind(form, 0, at)


def _has_text(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)


def _blank(blocks: Sequence[dict[str, Any]], begin: int, end: int) -> None:
    """Take the characters from `begin` to `end` of the blocks' joined text away, and say so in the first block."""
    start, said = 0, REDACTED
    for block in blocks:
        text = block["text"]
        first, last = max(begin - start, 0), min(end - start, len(text))
        if first < last:
            block["text"] = text[:first] + said + text[last:]
            said = ""
        start += len(text)
