"""Budgets: refuses what users and groups ask once they have spent their budget.

What has been spent is read from the store at most every `_FRESH_S` for each of them, and what this instance spends in
between is added. So they may exceed a budget by what runs at that moment, and by what other instances have spent since.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from agentic_backend.config.usage import BudgetSettings, BudgetsSettings
from agentic_backend.errors import BudgetExceeded
from agentic_backend.stores.base import Store
from agentic_backend.stores.trail import UsageRecord
from agentic_backend.stores.usage_sums import UsageQuery

_FRESH_S = 10.0
_KEPT_AT_MOST = 10_000
_DEFAULT = "default"

Whose = Literal["user", "group"]


@dataclass(slots=True)
class _Spent:
    """What has been spent in a period, by currency. `read_at` is in seconds of the clock."""

    begin: datetime
    read_at: float
    costs: dict[str, float]


class Budgets:
    def __init__(
        self, store: Store, settings: BudgetsSettings | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        settings = settings or BudgetsSettings()
        self._store = store
        self._of: Mapping[Whose, Mapping[str, BudgetSettings]] = {"user": settings.users, "group": settings.groups}
        self._clock = clock
        self._spent: OrderedDict[tuple[Whose, str], _Spent] = OrderedDict()
        """By whom it was spent; those asked for last are at the end."""
        self._reading: dict[tuple[Whose, str, datetime], asyncio.Task[_Spent]] = {}
        """What is being read, also by the begin of its period: all who ask meanwhile wait for it."""

    def __bool__(self) -> bool:
        return any(self._of.values())

    async def check(self, user_id: str, group: str | None) -> None:
        """Raises BudgetExceeded, with the time until it is renewed, if the user's or the group's budget is used up.

        Raises also StoreUnavailable and RateLimited, but asks the store only for those that have a budget.
        """
        await self._check("user", user_id)
        if group is not None:
            await self._check("group", group)

    def add(self, record: UsageRecord) -> None:
        """Add what a call has cost."""
        if record.cost is None or record.currency is None:
            return
        spenders: list[tuple[Whose, str | None]] = [("user", record.user_id), ("group", record.group)]
        for whose, name in spenders:
            spent = self._spent.get((whose, name)) if name is not None else None
            if spent is not None and record.at >= spent.begin:
                spent.costs[record.currency] = spent.costs.get(record.currency, 0.0) + record.cost

    async def _check(self, whose: Whose, name: str) -> None:
        budgets = self._of[whose]
        budget = budgets.get(name) or budgets.get(_DEFAULT)
        if budget is None or budget.cost is None:
            return
        now = self._store.now()
        begin, end = period(now, budget.per)
        spent = await self._costs(whose, name, begin)
        if spent.get(budget.currency, 0.0) >= budget.cost:
            who = "Your budget" if whose == "user" else "The budget of your group"
            content = f"{who} of {budget.cost:g} {budget.currency} a {budget.per} is used up."
            raise BudgetExceeded(content, retry_after_s=(end - now).total_seconds())

    async def _costs(self, whose: Whose, name: str, begin: datetime) -> Mapping[str, float]:
        """What has been spent since `begin`, by currency."""
        spent = self._spent.get((whose, name))
        if spent is None or spent.begin != begin or self._clock() - spent.read_at > _FRESH_S:
            reading = self._reading.get((whose, name, begin))
            if reading is None:
                # An empty context, because it is done for all who wait.
                reading = asyncio.create_task(self._read(whose, name, begin), context=Context())
                self._reading[whose, name, begin] = reading
                reading.add_done_callback(lambda task: self._has_read((whose, name, begin), task))
            # Shielded, since others may wait for it too.
            spent = await asyncio.shield(reading)
        if (whose, name) in self._spent:
            self._spent.move_to_end((whose, name))
        return spent.costs

    async def _read(self, whose: Whose, name: str, begin: datetime) -> _Spent:
        read_at = self._clock()
        query = UsageQuery(
            user_id=name if whose == "user" else None, group=name if whose == "group" else None, since=begin
        )
        sums = await self._store.usage_sums(query)
        spent = self._spent[whose, name] = _Spent(begin, read_at, dict(sums[0].costs) if sums else {})
        while len(self._spent) > _KEPT_AT_MOST:
            self._spent.popitem(last=False)
        return spent

    def _has_read(self, key: tuple[Whose, str, datetime], task: asyncio.Task[_Spent]) -> None:
        del self._reading[key]
        if not task.cancelled():
            # Whoever waits is told; if nobody waits any more, asyncio is not to complain.
            task.exception()


def period(at: datetime, per: Literal["day", "month"]) -> tuple[datetime, datetime]:
    """The day or the month, in UTC, that `at` is in: its first moment and that of the next one."""
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "day":
        return day, day + timedelta(days=1)
    first = day.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)
