"""Completes the ends of exchanges in MongoDB beside their answers, those of many sessions in the same round trips.

An end counts once its session has it; what is left to write then can be repeated by any instance (see settling), and
nobody's answer waits for it. If this process dies first, whoever comes across the exchange completes its end. While the
database is away, this tries again. The store owns this, and closes it before its driver.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.backoff import backoff
from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.mongo.documents import Document
from agentic_backend.stores.mongo.driver import MongoDriver
from agentic_backend.stores.mongo.sessions.settling import finish_ends

_AT_ONCE, _AT_MOST = 100, 1_000
# How long a read or the session's next exchange waits for it: they manage without.
_PATIENCE_S = 2.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 5.0

_LOG = logging.getLogger("agentic_backend.stores.mongo")


@dataclass(frozen=True, slots=True, eq=False)
class _Unfinished:
    session: Document = field(repr=False)
    """As its last exchange's end has left it."""
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it is finished, or could not be."""


class Finishing:
    def __init__(self, driver: MongoDriver) -> None:
        self._driver = driver
        self._unfinished: dict[str, _Unfinished] = {}
        """By session id, the oldest first."""
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def accept(self, session: Document) -> bool:
        """Complete the end of the session's last exchange soon; False if too many wait: then the caller has to."""
        if self._closing.is_set() or len(self._unfinished) >= _AT_MOST:
            return False
        if (former := self._unfinished.get(session["_id"])) is not None:
            # Somebody else has finished that one, or else no other exchange could have begun.
            former.tried.set()
        self._unfinished[session["_id"]] = _Unfinished(session)
        if self._task is None or self._task.done():
            # Without the caller's context, which has the deadline of its operation.
            self._task = asyncio.create_task(self._run(), context=Context())
        return True

    @property
    def statuses(self) -> dict[str, Any]:
        """The statuses with which exchanges have ended whose documents don't show it yet, by exchange id."""
        ends = [one.session["ended"] for one in self._unfinished.values()]
        return {end["exchange_id"]: end["changes"]["status"] for end in ends}

    async def of(self, session_id: str) -> None:
        """Wait a little until the session's last end is complete."""
        if (unfinished := self._unfinished.get(session_id)) is not None:
            await _wait([unfinished])

    async def all(self) -> None:
        """Wait a little until all ends are complete that have been accepted so far."""
        if self._unfinished:
            await _wait(list(self._unfinished.values()))

    async def aclose(self) -> None:
        """Try once more what is not finished, and leave the rest to others."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        delays, at_once = backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S), _AT_ONCE
        while self._unfinished:
            batch = list(self._unfinished.values())[:at_once]
            if await self._finish(batch):
                delays, at_once = backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S), min(2 * at_once, _AT_ONCE)
                continue
            if self._closing.is_set():
                return
            # If the database refuses one of them, fewer are held up by it each time.
            at_once = max(at_once // 2, 1)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), next(delays))

    async def _finish(self, batch: Sequence[_Unfinished]) -> bool:
        """Whether these ends are complete now. If not, they come last the next time."""
        try:
            await self._driver.run(
                "finish_ends", lambda database: finish_ends(database, [one.session for one in batch])
            )
            is_done = True
        except StoreUnavailable:
            is_done = False
        except Exception:
            # A bug; the exchanges are left to those who come across them.
            _LOG.exception("ends not finished", extra={"exchanges": len(batch)})
            is_done = True
        for one in batch:
            session_id = one.session["_id"]
            if self._unfinished.get(session_id) is one:
                del self._unfinished[session_id]
                if not is_done:
                    self._unfinished[session_id] = one
            one.tried.set()
        return is_done


async def _wait(unfinished: list[_Unfinished]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            for one in unfinished:
                await one.tried.wait()
