"""Budgets: what users and groups have spent in a period, known without asking the store each time."""

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from support.failing_store import FailingStore
from support.recorded_agents import eventually

from agentic_backend.config.topics.usage import BudgetsSettings
from agentic_backend.errors import BudgetExceeded, StoreUnavailable
from agentic_backend.policy.usage import budgets as module
from agentic_backend.policy.usage.budgets import Budgets, period
from agentic_backend.policy.usage.prices import Cost
from agentic_backend.policy.usage.usage_ledger import may_pay
from agentic_backend.stores.protocol.trail import UsageRecord
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.streaming.model.model_calls import Asked

NOW = datetime(2026, 3, 31, 22, tzinfo=UTC)


class Spending:
    """Budgets on a store, at a time that the test sets."""

    def __init__(self, store: FailingStore, **settings: Any) -> None:
        self.store = store
        self.seconds = 0.0
        self.budgets = Budgets(store.as_store, BudgetsSettings.model_validate(settings), lambda: self.seconds)
        self._number = 0

    def record(self, cost: float | None, user_id: str = "ann", **fields: Any) -> UsageRecord:
        self._number += 1
        at = fields.pop("at", NOW)
        values: dict[str, Any] = {
            "id": f"u{self._number}",
            "at": at,
            "day": at.date().isoformat(),
            "user_id": user_id,
            "group": None,
            "session_id": None,
            "exchange_id": None,
            "agent_id": None,
            "purpose": "answer",
            "model": "m",
            "input_tokens": 1,
            "output_tokens": 1,
            "cost": cost,
            "currency": None if cost is None else "USD",
            "priced_on": None,
        }
        return UsageRecord(**values | fields)

    async def stored(self, *args: Any, **fields: Any) -> None:
        await self.store.real.add_trail([self.record(*args, **fields)])

    def begin(self, call: UsageRecord, may_cost: float, **options: bool) -> Asked:
        """Begin a call, which goes on as long as the result is kept, or until `add`."""
        asked, cost = Asked([HumanMessage("?")]), Cost(may_cost, "USD", NOW.date())
        self.budgets.reserve(call.id, call.user_id, call.group, asked, cost, **options)
        return asked

    async def refusal(self, user_id: str = "ann", group: str | None = None) -> BudgetExceeded | None:
        try:
            await self.budgets.check(user_id, group)
        except BudgetExceeded as error:
            return error
        return None


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FailingStore]:
    real = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=10, wall=lambda: NOW)
    yield FailingStore(real)
    await real.aclose()


@pytest.mark.parametrize(
    ("at", "per", "span"),
    [
        ("2026-03-31T22:00:00Z", "day", ("2026-03-31", "2026-04-01")),
        ("2026-03-31T22:00:00Z", "month", ("2026-03-01", "2026-04-01")),
        ("2026-12-01T00:00:00Z", "month", ("2026-12-01", "2027-01-01")),
        ("2028-02-29T23:59:59Z", "month", ("2028-02-01", "2028-03-01")),
    ],
)
def test_a_period_is_a_day_or_a_month_in_utc(at: str, per: Any, span: tuple[str, str]) -> None:
    begin, end = period(datetime.fromisoformat(at), per)
    assert (begin.isoformat(), end.isoformat()) == tuple(f"{day}T00:00:00+00:00" for day in span)


async def test_who_has_spent_the_budget_waits_until_it_is_renewed(store: FailingStore) -> None:
    spending = Spending(store, users={"default": {"cost": 5, "per": "day"}, "rich": {"cost": 100}})
    await spending.stored(5.0)
    await spending.stored(4.99, "bob")
    await spending.stored(99.0, "rich")
    error = await spending.refusal()
    assert error is not None and error.retry_after_s == 2 * 3600
    assert [await spending.refusal(name) for name in ("bob", "rich")] == [None, None]


async def test_what_was_spent_before_or_in_another_currency_does_not_count(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5, "per": "day"}})
    await spending.stored(50.0, at=NOW - timedelta(days=1))
    await spending.stored(50.0, currency="EUR")
    await spending.stored(None)
    assert await spending.refusal() is None


async def test_a_group_has_a_budget_for_all_its_users(store: FailingStore) -> None:
    spending = Spending(store, groups={"class": {"cost": 5}})
    await spending.stored(3.0, "ann", group="class")
    await spending.stored(2.0, "bob", group="class")
    error = await spending.refusal("cy", "class")
    assert error is not None and error.content == "The budget of your group of 5 USD a month is used up."
    assert await spending.refusal("cy", "other") is None
    assert await spending.refusal("cy") is None


async def test_what_is_spent_here_counts_before_it_is_stored(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5}}, groups={"class": {"cost": 7}})
    assert await spending.refusal("ann", "class") is None
    spending.budgets.add(spending.record(5.0, group="class"))
    assert await spending.refusal() is not None
    assert await spending.refusal("bob", "class") is None
    spending.budgets.add(spending.record(2.0, "bob", group="class"))
    assert await spending.refusal("bob", "class") is not None


async def test_the_store_is_asked_once_in_a_while(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5}})
    assert await spending.refusal() is None
    await spending.stored(9.0)
    with store.away("usage_sums"):
        assert await spending.refusal() is None
        spending.seconds += module._FRESH_S + 1
        with pytest.raises(StoreUnavailable):
            await spending.refusal()
        assert await spending.refusal("who has no budget") is None
    assert await spending.refusal() is not None


async def test_only_so_many_sums_are_kept(store: FailingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_AT_MOST", 2)
    spending = Spending(store, users={"default": {"cost": 5}})
    for name in ("ann", "bob", "ann", "cy"):
        await spending.refusal(name)
    assert [name for _, name in spending.budgets._spent] == ["ann", "cy"]


@pytest.mark.parametrize(
    ("named", "groups", "scope", "paying"),
    [
        ([], {"b", "a"}, {}, "a"),
        ([], {"b", "a"}, {"organisation": "o"}, "o"),
        ([], set(), {"class": "c"}, None),
        (["c", "b", "a"], {"a", "b"}, {"organisation": "o"}, "b"),
        (["o", "b"], {"a", "b"}, {"organisation": "o"}, "o"),
        (["b", "a", "b"], {"a", "b"}, {}, "b"),
        (["c"], {"a", "b"}, {}, "a"),
    ],
)
def test_one_group_pays(
    store: FailingStore, named: list[str], groups: set[str], scope: dict[str, str], paying: str | None
) -> None:
    assert Spending(store, paying_groups=named).budgets.paying_group(may_pay(groups, scope)) == paying


async def test_all_who_ask_at_once_wait_for_one_reading(store: FailingStore) -> None:
    spending = Spending(store, groups={"class": {"cost": 5}})
    await spending.stored(9.0, group="class")
    reading = store.hold("usage_sums")
    asking = asyncio.gather(*[spending.refusal(f"u{number}", "class") for number in range(20)])
    await eventually(lambda: store.waiting == ["usage_sums"])
    reading.set()
    assert all(await asking) and store.waiting == ["usage_sums"]
    spending.seconds += module._FRESH_S + 1
    with store.away("usage_sums"):
        tried = [spending.budgets.check("u", "class") for _ in range(20)]
        failures = await asyncio.gather(*tried, return_exceptions=True)
    assert all(isinstance(failure, StoreUnavailable) for failure in failures)
    assert store.refused == ["usage_sums"]
    assert await spending.refusal("u", "class") is not None


async def test_what_runs_counts_with_what_it_may_cost_until_it_has_ended(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 6}}, groups={"class": {"cost": 6}})
    calls = [spending.record(1.0, group="class") for _ in range(3)]
    kept = [spending.begin(call, 4.0) for call in calls[:2]]
    error = await spending.refusal()
    assert error is not None and error.retry_after_s == module._RUNNING_S
    assert error.content.startswith("Your budget of 6 USD a month may be used up by what runs")
    assert await spending.refusal("bob", "class") is not None
    with pytest.raises(BudgetExceeded):
        spending.begin(calls[2], 0.0)
    spending.budgets.add(calls[0])
    kept.append(spending.begin(calls[2], 2.0))
    assert await spending.refusal("bob", "class") is not None
    spending.budgets.add(calls[1])
    assert await spending.refusal("ann", "class") is None


async def test_of_many_that_begin_at_once_no_more_begin_than_the_budget_may_pay_for(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 1}})
    begun = []
    for _ in range(50):
        try:
            begun.append(spending.begin(spending.record(0.9), 0.9))
        except BudgetExceeded:
            continue
    assert len(begun) == 2, "one call more than what is left"


async def test_a_call_that_must_begin_is_not_refused_but_counts(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5}})
    kept = [spending.begin(spending.record(0.0), 9.0, must=True) for _ in range(2)]
    assert await spending.refusal() is not None and kept


async def test_a_call_whose_run_has_gone_reserves_nothing(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5}})
    spending.begin(spending.record(0.0), 9.0)
    gc.collect()
    assert await spending.refusal() is None
    assert spending.budgets._running == {}


async def test_a_call_counts_once_however_often_it_is_told_of(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5}})
    assert await spending.refusal() is None
    call = spending.record(2.0)
    kept = spending.begin(call, 2.0)
    spending.budgets.add(replace(call, cost=1.5, currency="USD"), is_running=True)
    assert spending.budgets._spent["user", "ann"].costs == {"USD": 1.5}
    for _ in range(3):
        spending.budgets.add(call)
    assert spending.budgets._spent["user", "ann"].costs == {"USD": 2.0} and kept


async def test_what_is_not_stored_yet_is_not_forgotten_when_the_store_is_asked_again(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5}})
    await spending.stored(1.0)
    assert await spending.refusal() is None
    spending.budgets.add(spending.record(4.0))
    spending.seconds += module._FRESH_S + 1
    assert await spending.refusal() is not None


async def test_what_others_spend_while_calls_begin_here_is_read_meanwhile(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5}})
    assert await spending.refusal() is None
    await spending.stored(9.0)
    spending.begin(spending.record(0.0), 0.0)
    spending.seconds += module._FRESH_S + 1
    spending.begin(spending.record(0.0), 0.0)
    await asyncio.gather(*spending.budgets._reading.values())
    with pytest.raises(BudgetExceeded):
        spending.begin(spending.record(0.0), 0.0)


@pytest.mark.parametrize(("spent", "calls"), [(4.9, 1), (0.0, 13)])
async def test_each_of_several_instances_spends_what_is_left_and_one_call_more(
    store: FailingStore, spent: float, calls: int
) -> None:
    instances = [Spending(store, users={"ann": {"cost": 5}}) for _ in range(3)]
    await instances[0].stored(spent, id="before")
    assert [await instance.refusal() for instance in instances] == [None] * 3
    begun = []
    for number, instance in enumerate(instances):
        records = [instance.record(0.4, id=f"{number}.{one}") for one in range(calls)]
        begun += [(instance, record, instance.begin(record, 0.4)) for record in records]
        with pytest.raises(BudgetExceeded):
            instance.begin(instance.record(0.4), 0.4)
    # As they do at worst, all end within the time for which a sum is trusted.
    for instance, record, _ in begun:
        instance.budgets.add(record)
        await store.real.add_trail([record])
    total = spent + len(begun) * 0.4
    assert total <= spent + 3 * (5 - spent + 0.4)
    for instance in instances:
        instance.seconds += 11
        assert await instance.refusal() is not None
        assert instance.budgets._spent["user", "ann"].costs == {"USD": pytest.approx(total)}


async def test_the_clock_of_a_new_period_begins_with_nothing_spent(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5, "per": "day"}})
    assert await spending.refusal() is None
    spending.budgets.add(spending.record(9.0))
    assert await spending.refusal() is not None
    store.real._wall = lambda: NOW + timedelta(days=1)
    assert await spending.refusal() is None


async def test_without_a_budget_nothing_is_counted_or_kept(store: FailingStore) -> None:
    spending = Spending(store, users={"ann": {"cost": 5}, "bob": {"cost": None}})
    assert [spending.budgets.limit(name, "class") for name in ("ann", "bob", "cy")] == [True, False, False]
    spending.budgets.add(spending.record(9.0, "bob"))
    assert not spending.budgets._ended
