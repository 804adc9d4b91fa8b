"""Inbound: filters each message of an MCP server, from any transport, before MCP's client parses it.

The client validates all its input, which takes a millisecond for a notification and seconds for a result of many
blocks, and keeps it in memory. So Inbound cuts messages that are too long, with a note; drops messages that no request
asked for; hands reports of progress to their calls; and redacts credentials. Each session with a server has one, for
all its connections.
"""

import asyncio
import contextvars
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import orjson
from mcp.shared.session import ProgressFnT
from mcp.types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent, Tool
from pydantic import BaseModel
from pydantic_core import from_json

from agentic_backend.config.json_bounds import has_too_many_values, without_depths
from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.mcp.apps.ui_resources import bounded_meta
from agentic_backend.mcp.credentials import Credentials, dumped
from agentic_backend.mcp.framing import MOST_BYTES, Capped

log = logging.getLogger(__name__)

MOST_BLOCKS = 256
"""Content blocks of a result."""
MOST_VALUES = 10_000
"""Values within a result's structured content."""
MOST_TOOLS = 1000
"""Tools of a server."""
MOST_UNREAD_BYTES = 256 * 1024 * 1024
"""Bytes that a server may send since the latest request of ours."""
TURN_EVERY, MANY, REST_S = 64, 64, 0.01
"""Other tasks get a turn after so many dropped messages. If a server sends `MANY` at once, reading pauses for a moment,
in seconds."""

_LONGEST_ERROR = 2000
"""Characters of an error that a model reads."""
_END_BYTES = 256
_DIGITS = re.compile(r"\d{1,15}", re.ASCII)
_LONGEST_REQUEST = 65_536
_REQUESTS, _PER_S = 50, 60.0
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LARGEST_SCHEMA = 256, 8_192, 65_536
_MOST_ANNOTATIONS = 256
"""Values within a tool's annotations."""
_MOST_META = 1_000
"""Values within the `_meta` of a result."""
_LONGEST_TYPE = 100
_BLOCKS: dict[str, type[BaseModel]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource": EmbeddedResource,
    "resource_link": ResourceLink,
}
"""The content blocks that MCP's client knows, by their type."""

_START = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"\s*:\s*"'
_NOTIFICATION = re.compile(_START + rb"notifications/")
_PROGRESS = b"notifications/progress"
_ID_AT_THE_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("?)(\d{1,15})\1\s*,')
_ID_AT_THE_END = re.compile(rb'"id"\s*:\s*("?)(\d{1,15})\1\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

_UNSOUND = "it is no tool of MCP, or its name or schema is too large"
_TOO_DEEP = "its schema is nested too deeply"
_DEEPEST_SCHEMA, _DEEPEST_READ = 100, 150
"""Values within each other: in a tool's schema, and in a list of tools; the parser takes some 200."""

# JSON-RPC's "internal error".
_SERVER_ERROR = -32603
_KEPT_OF_A_RESULT = (
    *("content", "structuredContent", "isError", "_meta"),
    *("tools", "nextCursor"),
    "contents",
    *("protocolVersion", "capabilities", "serverInfo"),
)
_KEPT_OF_A_TOOL = ("name", "title", "description", "inputSchema", "annotations")

_AT_ONCE, _EVERY_S = 20, 0.1
"""So many reports of a call are passed on at once; then one per interval, in seconds."""

_TELL_S = 1
"""How long the callback may take for the last report, in seconds."""

_LONGEST_REPORT = 16_384
_LARGEST_NUMBER = 2.0**53
_PROGRESS_TOKEN = re.compile(rb'"progressToken"\s*:\s*(\d{1,15})\b')

RequestId = int
"""The id of a request of ours."""


class TooMuch(Exception):
    """A server sends too much that no request asked for."""


class Inbound:
    def __init__(self, server_id: str, credentials: Credentials) -> None:
        self.credentials = credentials
        """The credentials to redact."""
        self.progress = Progress(credentials)
        """Gets the reports of progress."""
        self._server_id = server_id
        """The server's name in the log and in errors."""
        self._unread = 0
        """Bytes since the latest request of ours, bounded by `MOST_UNREAD_BYTES`."""
        self._requests: list[float] = []
        """Times of the server's latest requests."""
        self._awaited: set[RequestId] = set()
        """Our requests without an answer."""

    @contextmanager
    def awaiting(self, request: RequestId) -> Iterator[None]:
        """Let the answer to a request of ours in while the context is open."""
        self._awaited.add(request)
        self._unread = 0
        try:
            yield
        finally:
            self._awaited.discard(request)

    async def read(self, message: Capped, answers: RequestId | None = None, *, is_all: bool = False) -> bytes | None:
        """The part of a message that MCP's client may read, as one line; None if there is none.

        `answers` is the request that the message must answer, if the transport knows it. `is_all`: no other message
        will answer that request. Raises TooMuch.
        """
        self.spend(len(message.head))
        if not message.is_cut and _NOTIFICATION.match(message.head):
            self._notified(bytes(message.head))
            return None
        if has_too_many_values(message.head):
            return self.error(_id_around(message) or (answers if is_all else None), "gave an answer of too many values")
        try:
            value = from_json(message.head, allow_partial="trailing-strings" if message.is_cut else False)
        except ValueError:
            # No JSON, or nested too deeply. On stdio, programs also print other text.
            value = await in_thread_if_long(len(message.head), _deep_listing, message.head)
        if not isinstance(value, dict):
            return self.error(_id_around(message) or (answers if is_all else None), "gave an answer that can't be read")
        if "method" in value:
            return await self._asked(value, message)
        return await self._answered(value, message, answers)

    def spend(self, size: int) -> None:
        """Count bytes that have come, or of a message that is still coming. Raises TooMuch."""
        self._unread += size
        if self._unread > MOST_UNREAD_BYTES:
            self._unread = 0
            log.warning("MCP server sends without end", extra={"mcp_server": self._server_id})
            raise TooMuch

    def error(self, request: RequestId | None, what: str) -> bytes | None:
        """An error as the answer to a request whose own answer can't be read; None if the request is unknown."""
        if request is None:
            return None
        log.warning("MCP answer refused", extra={"mcp_server": self._server_id, "reason": what})
        told = {"code": _SERVER_ERROR, "message": f"The MCP server '{self._server_id}' {what}."}
        return orjson.dumps({"jsonrpc": "2.0", "id": request, "error": told})

    def _notified(self, notification: bytes) -> None:
        """Take reports of progress; MCP's client needs no other notification."""
        if _PROGRESS in notification:
            self.progress.take(notification)

    async def _asked(self, value: dict[str, Any], message: Capped) -> bytes | None:
        """Pass a request of the server on to MCP's client; limited, since each costs an answer."""
        if value.get("id") is None:
            self._notified(bytes(message.head))
            return None
        now = time.monotonic()
        self._requests = [at for at in self._requests if now - at < _PER_S]
        if message.size > _LONGEST_REQUEST or len(self._requests) >= _REQUESTS:
            return None
        self._requests.append(now)
        return await self._written(value, message)

    async def _answered(self, value: dict[str, Any], message: Capped, answers: RequestId | None) -> bytes | None:
        request = _id_of(value, message, answers)
        if request not in self._awaited or answers not in (None, request):
            return None
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": request}
        result, error = value.get("result"), value.get("error")
        if isinstance(result, dict):
            kept = {key: result[key] for key in _KEPT_OF_A_RESULT if key in result}
            if message.is_cut and not _cut(kept, message.size):
                return self.error(request, f"gave an answer of {message.size} bytes; {MOST_BYTES} are read")
            said["result"] = kept
        elif isinstance(error, dict) and isinstance(error.get("message"), str):
            said["error"] = {"code": error.get("code"), "message": error["message"]}
        else:
            return self.error(request, "gave an answer that is none")
        return await self._written(said, message)

    async def _written(self, value: dict[str, Any], message: Capped) -> bytes | None:
        """The bounded JSON of `value`, which was read from `message`, without credentials."""
        try:
            return await in_thread_if_long(len(message.head), self._bounded, value)
        except ValueError:
            return self.error(value.get("id"), "gave an answer that can't be read")

    def _bounded(self, value: dict[str, Any]) -> bytes:
        """Raises ValueError if `value` can't be JSON."""
        match value:
            case {"result": dict(result)}:
                self._bound(result)
            case {"error": {"message": str(told)} as error}:
                # Redacted first: of a credential across the cut, nothing would recognize the part before it.
                error["message"] = self.credentials.redacted_text(told)[:_LONGEST_ERROR]
        return self.credentials.redacted(value)

    def _bound(self, result: dict[str, Any]) -> None:
        content, tools, contents = result.get("content"), result.get("tools"), result.get("contents")
        if isinstance(contents, list):
            # More than one is nothing that is asked for.
            del contents[1:]
        if isinstance(content, list) and len(content) > MOST_BLOCKS + 1:
            left_out = len(content) - MOST_BLOCKS
            content[MOST_BLOCKS:] = [_note(f"cut: {left_out} more blocks left out")]
        if isinstance(content, list):
            content[:] = map(self._sound_block, content)
        if "structuredContent" in result and not _has_at_most(MOST_VALUES, result["structuredContent"]):
            del result["structuredContent"]
            if isinstance(content, list):
                content.append(_note(f"cut: structured content of more than {MOST_VALUES} values left out"))
        for told in (result, *(contents if isinstance(contents, list) else ())):
            _bound_meta(told)
        if isinstance(tools, list):
            result["tools"] = [kept for tool in tools[:MOST_TOOLS] if (kept := self._sound(tool)) is not None]

    def _sound_block(self, block: Any) -> Any:
        """The content block, or a note in its place: MCP's client refuses the whole result for one that it can't read.

        Servers of later versions of MCP send types that the client doesn't know yet.
        """
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            return _note("a block without a type, which can't be shown")
        told = self.credentials.redacted_text(kind)[:_LONGEST_TYPE]
        if kind not in _BLOCKS:
            return _note(f"a block of the unknown type '{told}', which can't be shown")
        try:
            _BLOCKS[kind].model_validate(block)
        except ValueError:
            return _note(f"a block of the type '{told}' that is none, which can't be shown")
        return block

    def _sound(self, tool: Any) -> dict[str, Any] | None:
        """The bounded tool; None if it can't be offered to a model: such a tool is left out, and the others stay."""
        is_deep = isinstance(tool, dict) and not _is_shallow(tool.get("inputSchema"))
        kept = None if is_deep else _sound(tool)
        name = tool.get("name") if isinstance(tool, dict) else None
        if kept is None and isinstance(name, str):
            fields = {
                "mcp_server": self._server_id,
                "tool": self.credentials.redacted_text(name)[:_LONGEST_NAME],
                "reason": _TOO_DEEP if is_deep else _UNSOUND,
            }
            log.warning("MCP tool left out", extra=fields)
        return kept


def _deep_listing(head: bytes | bytearray) -> Any:
    """An answer that lists tools, nested too deeply for the parser, without its depths; None if it is none."""
    if b'"tools"' not in head:
        return None
    try:
        value = from_json(without_depths(head, _DEEPEST_READ))
    except ValueError:
        return None
    result = value.get("result") if isinstance(value, dict) else None
    return value if isinstance(result, dict) and isinstance(result.get("tools"), list) else None


def _id_of(value: dict[str, Any], message: Capped, answers: RequestId | None) -> RequestId | None:
    """The request of an answer: by its id, also at the end of a cut message, or as its transport knows."""
    request = value.get("id")
    if isinstance(request, str) and _DIGITS.fullmatch(request):
        # Some servers answer the request 5 as "5"; MCP's client accepts that too.
        return int(request)
    return request if isinstance(request, int) else _id_around(message) or answers


def _id_around(message: Capped) -> RequestId | None:
    """The id at the beginning or the end of a message that can't be parsed completely."""
    end = message.tail if message.is_cut else message.head[-_END_BYTES:]
    found = _ID_AT_THE_START.match(message.head) or _ID_AT_THE_END.search(end)
    return int(found[2]) if found is not None else None


def _cut(result: dict[str, Any], size: int) -> bool:
    """Turn the read part of a longer result into a valid one, in place; False if that is impossible."""
    content = result.get("content")
    if not isinstance(content, list):
        return False
    # The last block may be cut itself, and half an image is useless.
    if content and not (isinstance(content[-1], dict) and isinstance(content[-1].get("text"), str)):
        content.pop()
    for whole in ("structuredContent", "_meta"):
        result.pop(whole, None)
    del content[MOST_BLOCKS:]
    # The note comes first, since the end of a long result is cut again later.
    content.insert(0, _note(f"cut: the result has {size} bytes, of which the first {MOST_BYTES} were read"))
    return True


def _sound(tool: Any) -> dict[str, Any] | None:
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or len(tool["name"]) > _LONGEST_NAME:
        return None
    schema = tool.get("inputSchema")
    if not _has_at_most(MOST_VALUES, schema):
        return None
    kept = _bounded_tool(tool)
    try:
        # MCP's client refuses the whole list for one tool that is none.
        Tool.model_validate(kept)
        return kept if len(dumped(schema)) <= _LARGEST_SCHEMA else None
    except ValueError:
        return None


def _bounded_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool without its output schema: the server chooses it, and validating a result with it may take forever."""
    kept = {key: tool[key] for key in _KEPT_OF_A_TOOL if key in tool}
    for key in ("title", "description"):
        if isinstance(kept.get(key), str):
            kept[key] = kept[key][:_LONGEST_DESCRIPTION]
    if not _has_at_most(_MOST_ANNOTATIONS, kept.get("annotations")):
        del kept["annotations"]
    if (meta := bounded_meta(tool.get("_meta"))) is not None:
        kept["_meta"] = meta
    return kept


def _bound_meta(told: Any) -> None:
    """Leave `_meta` out if it is none, for which MCP's client would refuse the whole, or too much."""
    if isinstance(told, dict) and "_meta" in told:
        meta = told["_meta"]
        if not isinstance(meta, dict) or not _has_at_most(_MOST_META, meta):
            del told["_meta"]


def _has_at_most(most: int, value: Any) -> bool:
    """Whether `value` contains at most `most` values."""
    waiting, seen = [value], 0
    while waiting:
        within = waiting.pop()
        if isinstance(within, dict | list):
            seen += len(within)
            if seen > most:
                return False
            waiting += within.values() if isinstance(within, dict) else within
    return True


def _is_shallow(schema: Any) -> bool:
    """Whether `schema` has at most _DEEPEST_SCHEMA values within each other."""
    level = [schema]
    for _ in range(_DEEPEST_SCHEMA):
        level = [
            item
            for within in level
            if isinstance(within, dict | list)
            for item in (within.values() if isinstance(within, dict) else within)
        ]
    return not level


def _note(text: str) -> dict[str, Any]:
    return {"type": "text", "text": f"[{text}]"}


class Progress:
    """Passes a server's reports of progress on to the running calls, no more often than a person can read.

    A report waits as raw bytes for its turn; a newer one of the same call replaces it. So the newest is always passed
    on, at the latest when the call ends.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        """The credentials to redact in reports."""
        self._calls: dict[int, _Pace] = {}
        """The running calls, by their progress token."""

    @asynccontextmanager
    async def of(self, token: int, callback: ProgressFnT) -> AsyncIterator[None]:
        """Pass the reports with this progress token on to `callback` while the context is open."""
        # Reports come in the session's task, but the callback's graph is known only in the context of the call.
        context = contextvars.copy_context()
        telling: set[asyncio.Task[None]] = set()

        def tell(notification: bytes) -> None:
            if (report := self._read(notification)) is not None:
                told = asyncio.get_running_loop().create_task(callback(*report), context=context)
                telling.add(told)
                told.add_done_callback(telling.discard)

        pace = self._calls[token] = _Pace(tell)
        try:
            yield
        finally:
            del self._calls[token]
            pace.flush()
            # Shielded, because a cancelled call passes its last report on too.
            with anyio.move_on_after(_TELL_S, shield=True):
                await asyncio.gather(*telling)

    def take(self, notification: bytes) -> None:
        """Keep the raw notification for its turn. Drop it if it is too long, or its call doesn't run."""
        token = _PROGRESS_TOKEN.search(notification) if len(notification) <= _LONGEST_REPORT else None
        pace = self._calls.get(int(token[1])) if token is not None else None
        if pace is not None:
            pace.put(notification)

    def _read(self, notification: bytes) -> tuple[float, float | None, str | None] | None:
        try:
            params = orjson.loads(self._credentials.redacted(from_json(notification)))["params"]
            progress, total, message = params["progress"], params.get("total"), params.get("message")
        except (ValueError, TypeError, LookupError, AttributeError):
            return None
        if not _is_number(progress):
            return None
        return progress, total if _is_number(total) else None, message if isinstance(message, str) else None


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and abs(value) <= _LARGEST_NUMBER


class _Pace:
    """The rate limit of one call's reports: a token bucket, and the newest waiting report."""

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        """Passes a report on at once."""
        self._loop = asyncio.get_running_loop()
        """The clock."""
        self._left = float(_AT_ONCE)
        """The number of reports that may be passed on now."""
        self._since = self._loop.time()
        """The time of the last update of `_left`."""
        self._newest: bytes | None = None
        """The waiting report."""
        self._turn: asyncio.TimerHandle | None = None
        """The timer of its turn."""

    def put(self, notification: bytes) -> None:
        self._newest = notification
        if self._turn is None:
            now = self._loop.time()
            self._left = min(self._left + (now - self._since) / _EVERY_S, _AT_ONCE)
            self._since = now
            if self._left >= 1:
                self._left -= 1
                self.flush()
            else:
                self._turn = self._loop.call_later(_EVERY_S, self.flush)

    def flush(self) -> None:
        """Pass the waiting report on, if there is one."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        newest, self._newest = self._newest, None
        if newest is not None:
            self._tell(newest)
