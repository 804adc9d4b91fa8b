"""Budgets: refuses what users and groups ask once they have spent their budget.

What has been spent is what the store says, read at most every `_FRESH_S` for each of them, or what is known here if
that is more: a sum that was read grows by each call that ends here. A call that runs here counts with what it may cost.
So on one instance nothing is forgotten, and a budget may be exceeded by one call; with several, each may spend what is
left of the sum that it has read, and one call more. Reservations that others see would not change that while sums are
read so rarely, and would cost a row and a read for each call.
"""

import asyncio
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from agentic_backend.config.topics.usage import BudgetSettings, BudgetsSettings
from agentic_backend.errors import BudgetExceeded
from agentic_backend.policy.usage.prices import Cost
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import UsageRecord
from agentic_backend.stores.protocol.usage_sums import UsageQuery
from agentic_backend.stores.protocol.user_rows import hidden_name
from agentic_backend.streaming.model.model_calls import Asked

_FRESH_S = 10.0
_KEPT_AT_MOST = 10_000
_DEFAULT = "default"
_RUNNING_S = 10.0
"""When to try again if what runs may use up a budget: calls end within seconds, most of them for less."""

Whose = Literal["user", "group"]
_Payer = tuple[Whose, str]


@dataclass(slots=True)
class _Spent:
    """What has been spent in a period, by currency. `read_at` is in seconds of the clock."""

    begin: datetime
    read_at: float
    costs: dict[str, float]


@dataclass(slots=True)
class _Call:
    """A call and those of its payers who have a budget."""

    at: datetime
    payers: tuple[_Payer, ...]
    currency: str = ""
    may_cost: float = 0.0
    """0 once it has ended."""
    spent: float = 0.0
    """What is part of its payers' sums already."""
    asked: Callable[[], Asked | None] = lambda: None
    """None once its run has gone, of which LangChain doesn't always tell."""

    @property
    def reserved(self) -> float:
        asked = self.asked()
        return 0.0 if asked is None or asked.is_over else max(self.may_cost - self.spent, 0.0)


class Budgets:
    def __init__(
        self, store: Store, settings: BudgetsSettings | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        settings = settings or BudgetsSettings()
        self._store = store
        self._of: Mapping[Whose, Mapping[str, BudgetSettings]] = {"user": settings.users, "group": settings.groups}
        self._places = {group: place for place, group in reversed(list(enumerate(settings.paying_groups)))}
        """Where each paying group stands first in the settings."""
        self._clock = clock
        self._spent: OrderedDict[_Payer, _Spent] = OrderedDict()
        """By whom it was spent; those asked for last are at the end."""
        self._reading: dict[tuple[Whose, str, datetime], asyncio.Task[_Spent]] = {}
        """What is being read, also by the begin of its period: all who ask meanwhile wait for it."""
        self._running: dict[_Payer, dict[str, _Call]] = {}
        """The calls that run, by who pays for them and by their id."""
        self._ended: OrderedDict[str, _Call] = OrderedDict()
        """The last calls that have ended, by their id: some are told of twice."""
        self._lock = threading.Lock()
        """Held while what is spent and the calls are looked at or changed, for models may run in threads."""

    def __bool__(self) -> bool:
        return any(self._of.values())

    def paying_group(self, groups: Sequence[str]) -> str | None:
        """The one of the `groups` that pays: the first that the settings name, else the first; None of none."""
        named = [group for group in groups if group in self._places]
        return min(named, key=self._places.__getitem__) if named else next(iter(groups), None)

    def limit(self, user_id: str, group: str | None) -> bool:
        """Whether the user or the group has a budget."""
        return bool(self._limited(user_id, group))

    def counted_since(self) -> datetime | None:
        """When the longest period has begun that a budget counts; None without any budget."""
        limits = {budget.per for budgets in self._of.values() for budget in budgets.values() if budget.cost is not None}
        return min((period(self._store.now(), per)[0] for per in limits), default=None)

    async def check(self, user_id: str, group: str | None) -> None:
        """Raises BudgetExceeded, with the time until it is renewed, if the user's or the group's budget is used up.

        What runs counts with what it may cost. Raises also StoreUnavailable and RateLimited, but asks the store only
        for those that have a budget.
        """
        for payer in self._limited(user_id, group):
            now = self._store.now()
            begin, _ = period(now, self._budget(payer).per)
            await self._costs(*payer, begin)
            with self._lock:
                self._require(payer, now)

    def reserve(
        self, call_id: str, user_id: str, group: str | None, asked: Asked, cost: Cost | None, *, must: bool = False
    ) -> None:
        """Count what a call that begins may cost, until `add` says what it has cost, or `asked` is let go.

        Raises BudgetExceeded if a budget is used up by what is known here, unless the call `must` begin; sums that are
        not fresh are read meanwhile, for the next call. From any thread.
        """
        now, payers = self._store.now(), self._limited(user_id, group)
        with self._lock:
            if not must:
                for payer in payers:
                    self._require(payer, now)
            call = _Call(now, payers, asked=weakref.ref(asked))
            if cost is not None:
                call.currency, call.may_cost = cost.currency, cost.amount
            for payer in payers:
                self._running.setdefault(payer, {})[call_id] = call
        for payer in payers:
            self._refresh(payer, now)

    def add(self, record: UsageRecord, *, is_running: bool = False) -> None:
        """Add what a call has cost, or until now if it `is_running`, in place of what was said of it before."""
        payers = self._limited(record.user_id, record.group)
        if not payers:
            return
        with self._lock:
            call = self._running.get(payers[0], {}).get(record.id) or self._ended.get(record.id)
            call = call or _Call(record.at, payers)
            self._book(call, -call.spent)
            call.at, call.currency, call.spent = record.at, record.currency or call.currency, record.cost or 0.0
            self._book(call, call.spent)
            if is_running:
                return
            call.may_cost = 0.0
            for payer in payers:
                self._end(payer, record.id)
            self._ended[record.id] = call
            while len(self._ended) > _KEPT_AT_MOST:
                self._ended.popitem(last=False)

    def _limited(self, user_id: str, group: str | None) -> tuple[_Payer, ...]:
        """Those of the two who have a budget."""
        if not self:
            return ()
        payers: tuple[_Payer, ...] = (("user", user_id),) if group is None else (("user", user_id), ("group", group))
        return tuple(payer for payer in payers if self._budget(payer).cost is not None)

    def _budget(self, payer: _Payer) -> BudgetSettings:
        budgets = self._of[payer[0]]
        return budgets.get(payer[1]) or budgets.get(_DEFAULT) or BudgetSettings(cost=None)

    def _book(self, call: _Call, amount: float) -> None:
        for payer in call.payers:
            spent = self._spent.get(payer)
            if spent is not None and call.at >= spent.begin and amount:
                spent.costs[call.currency] = spent.costs.get(call.currency, 0.0) + amount

    def _end(self, payer: _Payer, call_id: str) -> None:
        running = self._running.get(payer, {})
        running.pop(call_id, None)
        if not running:
            self._running.pop(payer, None)

    def _require(self, payer: _Payer, now: datetime) -> None:
        """Raise BudgetExceeded if what is known here to be spent, with what runs, uses up the payer's budget."""
        budget = self._budget(payer)
        begin, end = period(now, budget.per)
        assert budget.cost is not None
        known = self._spent.get(payer)
        spent = known.costs.get(budget.currency, 0.0) if known is not None and known.begin == begin else 0.0
        whose = "Your budget" if payer[0] == "user" else "The budget of your group"
        limit = f"{whose} of {budget.cost:g} {budget.currency} a {budget.per}"
        if spent >= budget.cost:
            raise BudgetExceeded(f"{limit} is used up.", retry_after_s=(end - now).total_seconds())
        running = self._running.get(payer)
        if not running:
            return
        for gone in [call_id for call_id, call in running.items() if call.asked() is None]:
            self._end(payer, gone)
        reserved = sum(
            call.reserved for call in running.values() if call.currency == budget.currency and call.at >= begin
        )
        if spent + reserved >= budget.cost:
            content = f"{limit} may be used up by what runs: wait until some of it has ended."
            raise BudgetExceeded(content, retry_after_s=_RUNNING_S)

    async def _costs(self, whose: Whose, name: str, begin: datetime) -> None:
        """Know what has been spent since `begin`."""
        if not self._is_fresh((whose, name), begin):
            # Shielded, since others may wait for it too.
            await asyncio.shield(self._read_soon(whose, name, begin))

    def _is_fresh(self, payer: _Payer, begin: datetime) -> bool:
        with self._lock:
            spent = self._spent.get(payer)
            if spent is not None:
                self._spent.move_to_end(payer)
        return spent is not None and spent.begin == begin and self._clock() - spent.read_at <= _FRESH_S

    def _refresh(self, payer: _Payer, now: datetime) -> None:
        """Read the payer's sum soon if it is not fresh; a call in a thread leaves that to others."""
        begin, _ = period(now, self._budget(payer).per)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        if not self._is_fresh(payer, begin):
            self._read_soon(*payer, begin)

    def _read_soon(self, whose: Whose, name: str, begin: datetime) -> "asyncio.Task[_Spent]":
        reading = self._reading.get((whose, name, begin))
        if reading is None:
            # An empty context, because it is done for all who wait.
            reading = asyncio.create_task(self._read(whose, name, begin), context=Context())
            self._reading[whose, name, begin] = reading
            reading.add_done_callback(lambda task: self._has_read((whose, name, begin), task))
        return reading

    async def _read(self, whose: Whose, name: str, begin: datetime) -> _Spent:
        read_at = self._clock()
        if whose == "user":
            # With what they had spent before they deleted their data.
            queries = [UsageQuery(user_id=one, since=begin) for one in (name, hidden_name(name))]
        else:
            queries = [UsageQuery(group=name, since=begin)]
        costs: dict[str, float] = {}
        for query in queries:
            for found in await self._store.usage_sums(query):
                costs |= {one: costs.get(one, 0.0) + cost for one, cost in found.costs.items()}
        with self._lock:
            known = self._spent.get((whose, name))
            if known is not None and known.begin == begin:
                # What has ended here may not be stored yet.
                costs |= {one: max(cost, costs.get(one, 0.0)) for one, cost in known.costs.items()}
            spent = self._spent[whose, name] = _Spent(begin, read_at, costs)
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
