"""Sums over usage records: the query, its result, and their computation for a database that can't compute them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, get_args

UsageKey = Literal["day", "user_id", "group", "session_id", "exchange_id", "agent_id", "model", "purpose"]
USAGE_KEYS: tuple[UsageKey, ...] = get_args(UsageKey)

_FILTERS = ("user_id", "group", "session_id", "exchange_id", "agent_id")


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """The usage records that have all the given values, from `since` on and before `until`, summed `by` keys.

    Without a key, all of them are one sum.
    """

    user_id: str | None = None
    group: str | None = None
    session_id: str | None = None
    exchange_id: str | None = None
    agent_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    by: tuple[UsageKey, ...] = ()
    counts_estimated: bool = False
    """Whether to count the calls whose tokens are estimated, for which the records themselves are read."""
    limit: int = 1_000
    """The most sums, the first ones in the order of their keys."""

    @property
    def where(self) -> dict[str, str]:
        """The given values, by the field of the record."""
        given = {name: getattr(self, name) for name in _FILTERS}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(slots=True)
class UsageSum:
    """What the calls with the same `keys` (the query's `by`, in its order) have used."""

    keys: tuple[str | None, ...]
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    costs: dict[str, float] = field(default_factory=dict)
    """By currency; without the calls that have no price."""
    estimated_calls: int = 0
    """The calls whose tokens are estimated, if the query counts them."""


class UsageAdding:
    """Adds up rows: usage records, or sums over several of them, which also have their number as `calls`."""

    def __init__(self, query: UsageQuery) -> None:
        self._query = query
        self._sums: dict[tuple[str | None, ...], UsageSum] = {}

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows that have the query's keys, a currency and figures; a figure may be None."""
        for row in rows:
            keys = tuple(row[name] for name in self._query.by)
            added = self._sums.setdefault(keys, UsageSum(keys))
            added.calls += row.get("calls", 1)
            added.input_tokens += int(row["input_tokens"] or 0)
            added.output_tokens += int(row["output_tokens"] or 0)
            added.estimated_calls += int(row.get("estimated") or 0)
            if row["currency"] is not None:
                added.costs[row["currency"]] = added.costs.get(row["currency"], 0.0) + (row["cost"] or 0.0)

    def sums(self) -> list[UsageSum]:
        """By their keys, None first."""
        ordered = sorted(self._sums.values(), key=lambda one: [(key is not None, key or "") for key in one.keys])
        return ordered[: self._query.limit]


class UsageStore(Protocol):
    """The operations of a Store on sums of usage."""

    async def usage_sums(self, query: UsageQuery) -> list[UsageSum]:
        """The sums, in the order of their keys.

        Raises RateLimited if this exceeds the timeout of an operation; the store then stops it.
        """
        ...
