"""What every store sums up of usage, whichever database is beneath it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pymongo.errors import OperationFailure
from services.mongodb import ON_MONGODB, ON_PLANNING_MONGODB

from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo import usage as mongo_usage
from agentic_backend.stores.protocol.usage_sums import USAGE_KEYS, UsageQuery, UsageSum
from tests.stores.conftest import OpenMongo
from tests.stores.samples import EPOCH
from tests.stores.trail_samples import a_usage

DAY = 24 * 60


CALLS = [
    a_usage(minute=0, exchange_id="e1"),
    a_usage(minute=1, exchange_id="e1", purpose="title"),
    a_usage(minute=DAY, exchange_id="e2", currency="USD", cost=2.0, model="other"),
    a_usage(minute=DAY + 1, exchange_id="e2", currency=None, cost=None, input_tokens=None, output_tokens=None),
    a_usage("bob", minute=2 * DAY, exchange_id=None, session_id=None, agent_id=None, group=None, purpose="module"),
]


def a_sum(*keys: str | None, calls: int = 1, tokens: tuple[int, int] = (100, 10), **costs: float) -> UsageSum:
    return UsageSum(keys, calls, *tokens, costs)


SUMS: list[tuple[dict[str, Any], list[UsageSum]]] = [
    ({}, [a_sum(calls=5, tokens=(400, 40), EUR=1.5, USD=2.0)]),
    ({"user_id": "nobody"}, []),
    ({"user_id": "ann"}, [a_sum(calls=4, tokens=(300, 30), EUR=1.0, USD=2.0)]),
    ({"group": "7b", "by": ("group",)}, [a_sum("7b", calls=4, tokens=(300, 30), EUR=1.0, USD=2.0)]),
    ({"exchange_id": "e1", "session_id": "s"}, [a_sum(calls=2, tokens=(200, 20), EUR=1.0)]),
    ({"agent_id": "assistant", "until": EPOCH + timedelta(minutes=1)}, [a_sum(EUR=0.5)]),
    ({"since": EPOCH + timedelta(minutes=DAY + 1), "user_id": "ann"}, [a_sum(tokens=(0, 0))]),
    (
        {"by": ("group", "purpose"), "limit": 2},
        [a_sum(None, "module", EUR=0.5), a_sum("7b", "answer", calls=3, tokens=(200, 20), EUR=0.5, USD=2.0)],
    ),
    (
        {"by": ("day", "user_id")},
        [
            a_sum("2026-01-01", "ann", calls=2, tokens=(200, 20), EUR=1.0),
            a_sum("2026-01-02", "ann", calls=2, USD=2.0),
            a_sum("2026-01-03", "bob", EUR=0.5),
        ],
    ),
    (
        {"by": ("model",), "user_id": "ann"},
        [a_sum("other", USD=2.0), a_sum("scripted", calls=3, tokens=(200, 20), EUR=1.0)],
    ),
]


async def test_usage_is_summed_by_keys(store: Store) -> None:
    await store.add_trail(CALLS)
    for wanted, sums in SUMS:
        assert await store.usage_sums(UsageQuery(**wanted)) == sums, wanted


async def test_each_key_tells_the_sums_apart(store: Store) -> None:
    await store.add_trail(CALLS)
    for key in USAGE_KEYS:
        sums = await store.usage_sums(UsageQuery(by=(key,)))
        values = {getattr(call, key) for call in CALLS}
        assert [one.keys for one in sums] == [
            (value,) for value in sorted(values, key=lambda value: (value is not None, value or ""))
        ], key
        assert sum(one.calls for one in sums) == 5, key


async def test_the_calls_whose_tokens_are_estimated_are_counted(store: Store) -> None:
    await store.add_trail([*CALLS, a_usage(minute=2, exchange_id="e1", estimated=True, currency="USD", cost=1.0)])
    asked = UsageQuery("ann", by=("exchange_id",), counts_estimated=True)
    sums = await store.usage_sums(asked)
    assert [(one.keys, one.calls, one.estimated_calls) for one in sums] == [(("e1",), 3, 1), (("e2",), 2, 0)]


@pytest.mark.parametrize("mongodb_server", [*ON_MONGODB, *ON_PLANNING_MONGODB], indirect=True)
async def test_a_server_without_such_pipelines_sends_the_records_in_batches(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: MongoStore = await open_mongo()
    await store.add_trail([a_usage(minute=number % 7, estimated=number < 3 or None) for number in range(30)])
    monkeypatch.setattr(mongo_usage, "_ADDED", 7)
    monkeypatch.setattr(mongo_usage, "aggregated", _refused)
    [found] = await store.usage_sums(UsageQuery("ann", counts_estimated=True))
    assert found == replace(a_sum(calls=30, tokens=(3000, 300), EUR=15.0), estimated_calls=3)


async def _refused(*_: object) -> list[Any]:
    raise OperationFailure("no such stage", 40324)
