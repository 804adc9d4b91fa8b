"""ExchangePageStore: what a Store tells of a session's exchanges, many at a time."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentic_backend.stores.protocol.trail import ActivityRecord
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.stores.tables import EXCHANGES

LEFT_OUT = ("partial", "policy", "runtime_context")
"""The fields that records of a page lack: they may be large, and only who goes on with an exchange needs them."""
ACTIVITIES_PER_EXCHANGE = 100
"""The most activities that are read of one exchange, the first ones."""


@dataclass(slots=True)
class ExchangePage:
    """Exchanges by rank, and the first rank of the one that follows; None if none does."""

    exchanges: list[ExchangeRecord] = field(default_factory=list)
    next_rank: int | None = None
    _bytes: int = 0

    def takes(self, row: Mapping[str, Any], limit: int, max_bytes: int) -> bool:
        """Add the next row, unless there are `limit` of them or it doesn't fit: then the page is complete."""
        self._bytes += sum(len((row[name] or "").encode()) for name in ("pending", "decisions", "error"))
        if self.exchanges and (len(self.exchanges) >= limit or self._bytes > max_bytes):
            self.next_rank = row["first_rank"]
            return False
        self.exchanges.append(EXCHANGES.record_of(row))
        return True


class ExchangePageStore(Protocol):
    """The operations of a Store on pages of exchanges."""

    async def exchanges_from(self, session_id: str, from_rank: int, limit: int, max_bytes: int) -> ExchangePage:
        """At most `limit` exchanges without LEFT_OUT, shared ones too: from the one that has `from_rank` on.

        As many as fit into `max_bytes` with what was asked and decided in them, but at least one if there is any.
        """
        ...

    async def activities_of(self, exchange_ids: Collection[str]) -> list[ActivityRecord]:
        """The activities of these exchanges, by `seq` within each."""
        ...
