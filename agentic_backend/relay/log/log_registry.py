"""LogRegistry: finds every exchange log of this process, by the exchange's id or the client's id for it.

Owned by the relay. A log lives as long as something references it (its exchange, a reader, a mirror). Logs of ended
exchanges are kept for a limited time, within a limit on their total size.
"""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from contextvars import Context
from weakref import WeakValueDictionary

from cachetools import LRUCache, TTLCache

from agentic_backend.relay.log.exchange_log import ExchangeLog

KEPT_S = 60
"""How long the events of an ended exchange can still be followed, in seconds."""


class LogRegistry:
    def __init__(self, *, keep_ended_bytes: int, names: int) -> None:
        """`names` is how many clients' ids are remembered."""
        self._logs: WeakValueDictionary[str, ExchangeLog] = WeakValueDictionary()
        """All logs of this process, by exchange id."""
        self._kept: TTLCache[str, ExchangeLog] = TTLCache(keep_ended_bytes, KEPT_S, getsizeof=_size)
        """Logs that are kept for a while without a reader, by exchange id."""
        self._expiry: asyncio.TimerHandle | None = None
        """Runs while logs are kept: by itself, a cache drops what has expired only when it is written to."""
        self._ids: LRUCache[tuple[str, str], str] = LRUCache(names)
        """Exchange ids, by user id and the client's id for the exchange."""

    def new(self, session_id: str | None, exchange_id: str, user_id: str) -> ExchangeLog:
        """Create and register a log."""
        log = ExchangeLog(session_id, exchange_id, user_id=user_id)
        self._logs[exchange_id] = log
        return log

    def get(self, exchange_id: str) -> ExchangeLog | None:
        """The log, if it is still referenced."""
        return self._logs.get(exchange_id)

    def name(self, log: ExchangeLog, client_exchange_id: str) -> None:
        """Register the client's id for the log's exchange; it is unique per user."""
        self._ids[log.user_id, client_exchange_id] = log.exchange_id

    def id_of(self, user_id: str, client_exchange_id: str) -> str:
        """The exchange id for the client's id; empty if that is unknown."""
        return self._ids.get((user_id, client_exchange_id), "")

    def keep(self, log: ExchangeLog) -> None:
        """Keep the log for a while, unless it exceeds the size limit or was evicted."""
        if log.exchange_id in self._logs:
            with contextlib.suppress(ValueError):
                self._kept[log.exchange_id] = log
            self._expire_later()

    def is_kept(self, exchange_id: str) -> bool:
        return exchange_id in self._kept

    def evict_session(self, session_id: str) -> None:
        """Remove the session's logs; a reader may still hold one."""
        self._evict([id for id, log in self._logs.items() if log.session_id == session_id])

    def evict_users(self, user_ids: Collection[str]) -> None:
        """Remove the users' logs and the ids that their clients gave. A log whose reader waits for its end stays."""
        theirs = [log for log in self._logs.values() if log.user_id in user_ids]
        self._evict([log.exchange_id for log in theirs if log.final is not None or not log.is_followed])
        for name in [name for name in self._ids if name[0] in user_ids]:
            del self._ids[name]

    def _evict(self, exchange_ids: Sequence[str]) -> None:
        for exchange_id in exchange_ids:
            del self._logs[exchange_id]
            # A log whose time is over was removed already.
            self._kept.pop(exchange_id, None)

    def _expire_later(self) -> None:
        if self._expiry is None and self._kept:
            # Without the exchange's context, whose texts it would keep.
            self._expiry = asyncio.get_running_loop().call_later(KEPT_S, self._expire, context=Context())

    def _expire(self) -> None:
        self._expiry = None
        self._kept.expire()
        self._expire_later()

    def unended(self) -> list[ExchangeLog]:
        """The logs without a final that have a reader, or are kept and not waiting for a person."""
        return [
            log
            for exchange_id, log in list(self._logs.items())
            if log.final is None and (log.is_followed or (exchange_id in self._kept and not log.is_waiting))
        ]


def _size(log: ExchangeLog) -> int:
    return log.size
