"""Progress: what servers report of running calls, told to whoever called as often as a person can read it.

A report is kept as the bytes that came until it is its turn; a newer one of the same call takes its place, so the
newest is always told, at the latest when the call ends.
"""

import asyncio
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from pydantic_core import from_json

from agentic_backend.mcp.credentials import Credentials

Report = Callable[[float, float | None, str | None], None]
"""Takes progress, total and message."""

_AT_ONCE, _EVERY_S = 20, 0.1
"""So many reports of a call are told as they come, and one in so much time is added to these."""

_LONGEST = 16_384
_LARGEST = 2.0**53
_TOKEN = re.compile(rb'"progressToken"\s*:\s*(\d{1,15})\b')


class Progress:
    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._calls: dict[int, _Paced] = {}

    @contextmanager
    def of(self, token: int, report: Report) -> Iterator[None]:
        """Tell `report` what the server says of the call with this progress token, as long as it runs."""

        def tell(notification: bytes) -> None:
            if (read := self._read(notification)) is not None:
                report(*read)

        paced = self._calls[token] = _Paced(tell)
        try:
            yield
        finally:
            del self._calls[token]
            paced.close()

    def take(self, notification: bytes) -> None:
        """Keep a notification, as it came, for its turn; one of no running call is dropped, and one that is long."""
        token = _TOKEN.search(notification) if len(notification) <= _LONGEST else None
        paced = self._calls.get(int(token[1])) if token is not None else None
        if paced is not None:
            paced.put(notification)

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
    return is_number and math.isfinite(value) and abs(value) <= _LARGEST


class _Paced:
    """The reports of one call."""

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._left = float(_AT_ONCE)
        self._since = self._loop.time()
        self._newest: bytes | None = None
        self._turn: asyncio.TimerHandle | None = None

    def put(self, notification: bytes) -> None:
        self._newest = notification
        if self._turn is None:
            now = self._loop.time()
            self._left = min(self._left + (now - self._since) / _EVERY_S, _AT_ONCE)
            self._since = now
            if self._left >= 1:
                self._left -= 1
                self._flush()
            else:
                self._turn = self._loop.call_later(_EVERY_S, self._take_turn)

    def close(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._flush()

    def _take_turn(self) -> None:
        self._turn = None
        self._flush()

    def _flush(self) -> None:
        newest, self._newest = self._newest, None
        if newest is not None:
            self._tell(newest)
