"""Inbound: each message of an MCP server on its way in, before MCP's client parses it, whatever transport brought it.

The client validates all that it is given, at a cost of a millisecond for a notification and of seconds for a result of
many blocks, and keeps all of it in memory. So what is longer than it may be is cut here, and says so; what nobody
asked for is dropped; reports of progress go their own way; and credentials are replaced.
"""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from pydantic_core import from_json

from agentic_backend.mcp.credentials import Credentials
from agentic_backend.mcp.framing import MOST_BYTES, Capped
from agentic_backend.mcp.progress import Progress

log = logging.getLogger(__name__)

MOST_BLOCKS = 256
"""Content blocks of a result."""

MOST_VALUES = 10_000
"""Values within a result's structured content."""

MOST_TOOLS = 1000
"""Tools of a server."""

MOST_UNREAD_BYTES = 256 * 1024 * 1024
"""Bytes that a server may send beside what it was asked for, from one answer to the next."""

_LONGEST_ERROR = 2000
_END_BYTES = 256
_DIGITS = re.compile(r"\d{1,15}", re.ASCII)
_LONGEST_REQUEST = 65_536
_REQUESTS, _PER_S = 50, 60.0
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LARGEST_SCHEMA = 256, 8_192, 65_536

_START = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"\s*:\s*"'
_NOTIFICATION = re.compile(_START + rb"notifications/")
_PROGRESS = b"notifications/progress"
_ID_AT_THE_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("?)(\d{1,15})\1\s*,')
_ID_AT_THE_END = re.compile(rb'"id"\s*:\s*("?)(\d{1,15})\1\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

# JSON-RPC's "internal error".
_SERVER_ERROR = -32603
_KEPT_OF_A_RESULT = (
    *("content", "structuredContent", "isError"),
    *("tools", "nextCursor"),
    *("protocolVersion", "capabilities", "serverInfo"),
)
_KEPT_OF_A_TOOL = ("name", "title", "description", "inputSchema", "annotations")

RequestId = int
"""Of a request of ours."""


class TooMuch(Exception):
    """A server sends without end what nobody asked for."""


class Inbound:
    """One for each session with a server."""

    def __init__(self, server_id: str, credentials: Credentials) -> None:
        self.credentials = credentials
        self.progress = Progress(credentials)
        self._server_id = server_id
        self._unread = 0
        self._requests: list[float] = []
        """When the server's latest requests came."""
        self._awaited: set[RequestId] = set()
        """The requests of ours that have no answer."""

    @contextmanager
    def awaiting(self, request: RequestId) -> Iterator[None]:
        """Let the answer to a request of ours in, as long as somebody waits for it."""
        self._awaited.add(request)
        self._unread = 0
        try:
            yield
        finally:
            self._awaited.discard(request)

    def read(self, message: Capped, answers: RequestId | None = None, *, is_all: bool = False) -> bytes | None:
        """What MCP's client may read of a message, as one line; None is nothing.

        `answers` is the one request that its transport has it answer, where that knows it; the message may be all that
        the server says to that. Raises TooMuch.
        """
        self.spend(len(message.head))
        if not message.is_cut and _NOTIFICATION.match(message.head):
            self._notified(bytes(message.head))
            return None
        try:
            value = from_json(message.head, allow_partial="trailing-strings" if message.is_cut else False)
        except ValueError:
            # No JSON, or nested without end. On stdio it is what programs print beside their messages.
            value = None
        if not isinstance(value, dict):
            return self.error(_id_around(message) or (answers if is_all else None), "gave an answer that can't be read")
        if "method" in value:
            return self._asked(value, message)
        return self._answered(value, message, answers)

    def spend(self, size: int) -> None:
        """Count what has come, or is on its way, beside what was asked for. Raises TooMuch."""
        self._unread += size
        if self._unread > MOST_UNREAD_BYTES:
            self._unread = 0
            log.warning("MCP server sends without end", extra={"mcp_server": self._server_id})
            raise TooMuch

    def error(self, request: RequestId | None, what: str) -> bytes | None:
        """The answer to a request whose own can't be read; None where it is not known which one that is."""
        if request is None:
            return None
        log.warning("MCP server %s", what, extra={"mcp_server": self._server_id})
        told = {"code": _SERVER_ERROR, "message": f"The MCP server '{self._server_id}' {what}."}
        return orjson.dumps({"jsonrpc": "2.0", "id": request, "error": told})

    def _notified(self, notification: bytes) -> None:
        """MCP's client has no use for any notification but of progress."""
        if _PROGRESS in notification:
            self.progress.take(notification)

    def _asked(self, value: dict[str, Any], message: Capped) -> bytes | None:
        """A request of the server, which MCP's client answers: some of them, since each costs an answer."""
        if value.get("id") is None:
            self._notified(bytes(message.head))
            return None
        now = time.monotonic()
        self._requests = [at for at in self._requests if now - at < _PER_S]
        if message.size > _LONGEST_REQUEST or len(self._requests) >= _REQUESTS:
            return None
        self._requests.append(now)
        return self._written(value)

    def _answered(self, value: dict[str, Any], message: Capped, answers: RequestId | None) -> bytes | None:
        request = _id_of(value, message, answers)
        if request not in self._awaited or answers not in (None, request):
            return None
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": request}
        result, error = value.get("result"), value.get("error")
        if isinstance(result, dict):
            kept = {key: result[key] for key in _KEPT_OF_A_RESULT if key in result}
            if message.is_cut and not _cut(kept, message.size):
                return self.error(request, f"gave an answer of {message.size} bytes; {MOST_BYTES} are read")
            _bound(kept)
            said["result"] = kept
        elif isinstance(error, dict) and isinstance(error.get("message"), str):
            said["error"] = {"code": error.get("code"), "message": error["message"][:_LONGEST_ERROR]}
        else:
            return self.error(request, "gave an answer that is none")
        return self._written(said)

    def _written(self, value: dict[str, Any]) -> bytes | None:
        try:
            return self.credentials.redacted(value)
        except ValueError:
            return self.error(value.get("id"), "gave an answer that can't be read")


def _id_of(value: dict[str, Any], message: Capped, answers: RequestId | None) -> RequestId | None:
    """Which request an answer is for: as it says, be it behind all else, or as its transport knows."""
    request = value.get("id")
    if isinstance(request, str) and _DIGITS.fullmatch(request):
        # Some servers answer the request 5 as "5"; MCP's client takes that too.
        return int(request)
    return request if isinstance(request, int) else _id_around(message) or answers


def _id_around(message: Capped) -> RequestId | None:
    """The id at the beginning or the end of a message that can't be read as a whole."""
    end = message.tail if message.is_cut else message.head[-_END_BYTES:]
    found = _ID_AT_THE_START.match(message.head) or _ID_AT_THE_END.search(end)
    return int(found[2]) if found is not None else None


def _cut(result: dict[str, Any], size: int) -> bool:
    """Make a result of what was read of a longer one; False where that makes none."""
    content = result.get("content")
    if not isinstance(content, list):
        return False
    # The last block may be cut itself; half an image is none.
    if content and not (isinstance(content[-1], dict) and isinstance(content[-1].get("text"), str)):
        content.pop()
    result.pop("structuredContent", None)
    del content[MOST_BLOCKS:]
    # In front, since the end of a long result is left out again.
    content.insert(0, _note(f"cut: the result has {size} bytes, of which the first {MOST_BYTES} were read"))
    return True


def _bound(result: dict[str, Any]) -> None:
    content, tools = result.get("content"), result.get("tools")
    if isinstance(content, list) and len(content) > MOST_BLOCKS + 1:
        left_out = len(content) - MOST_BLOCKS
        content[MOST_BLOCKS:] = [_note(f"cut: {left_out} more blocks left out")]
    if "structuredContent" in result and not _has_at_most(MOST_VALUES, result["structuredContent"]):
        del result["structuredContent"]
        if isinstance(content, list):
            content.append(_note(f"cut: structured content of more than {MOST_VALUES} values left out"))
    if isinstance(tools, list):
        result["tools"] = [_bounded_tool(tool) for tool in tools[:MOST_TOOLS] if _is_sound(tool)]


def _is_sound(tool: Any) -> bool:
    """Whether a model could be offered the tool; one that it could not is left out."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or len(tool["name"]) > _LONGEST_NAME:
        return False
    schema = tool.get("inputSchema")
    return _has_at_most(MOST_VALUES, schema) and len(orjson.dumps(schema, default=str)) <= _LARGEST_SCHEMA


def _bounded_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool without the schema of its results: servers choose it, and to check a result by it may take forever."""
    kept = {key: tool[key] for key in _KEPT_OF_A_TOOL if key in tool}
    for key in ("title", "description"):
        if isinstance(kept.get(key), str):
            kept[key] = kept[key][:_LONGEST_DESCRIPTION]
    if not _has_at_most(_LONGEST_NAME, kept.get("annotations")):
        del kept["annotations"]
    return kept


def _has_at_most(most: int, value: Any) -> bool:
    """Whether there are no more values than `most` within `value`."""
    waiting, seen = [value], 0
    while waiting:
        within = waiting.pop()
        if isinstance(within, dict | list):
            seen += len(within)
            if seen > most:
                return False
            waiting += within.values() if isinstance(within, dict) else within
    return True


def _note(text: str) -> dict[str, Any]:
    return {"type": "text", "text": f"[{text}]"}
