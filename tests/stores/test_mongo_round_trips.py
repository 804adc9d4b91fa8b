"""Which commands a turn sends to MongoDB, and how many round trips it waits for one after the other."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import Database
from agentic_backend.stores.mongo.sessions import settling
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import FaultyDatabase
from tests.stores.samples import a_kpi, a_session, an_end, an_exchange, answer, fence_after, question
from tests.stores.trail_samples import a_usage


class Trips:
    """The commands of a store from now on, in the order in which they were sent.

    Each with its place in the chain of those that wait for each other: it comes after all that had been answered when
    it was sent.
    """

    def __init__(self, store: MongoStore) -> None:
        self._sent: list[tuple[int, str]] = []
        self._answered = 0
        store.driver.database = cast(Database, FaultyDatabase(store.driver.database, lambda *_: "fine", self._follow))

    def take(self) -> list[tuple[int, str]]:
        """Those since the last call, in the order of their places."""
        taken, self._sent, self._answered = sorted(self._sent), [], 0
        return taken

    async def _follow(self, collection: str, method: str, trip: Callable[[], Awaitable[Any]]) -> Any:
        place = self._answered + 1
        self._sent.append((place, f"{collection} {method}"))
        result = await trip()
        self._answered = max(self._answered, place)
        return result


@pytest.mark.parametrize("forgets", [False, True])
async def test_a_question_and_an_answer_wait_for_two_round_trips_each(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    store, session = await open_mongo(), a_session()
    monkeypatch.setattr(settling, "FORGET_EVERY", 1 if forgets else 100)
    await store.create_session(session)
    trips = Trips(store)
    exchange = an_exchange(session)
    written = await store.begin_exchange(exchange, question())
    begin = [(1, "exchanges insert_one"), (1, "messages insert_many"), (2, "sessions find_one_and_update")]
    assert trips.take() == begin
    end = an_end(kpi=a_kpi(exchange_id=exchange.id), session_state=b"state")
    await store.append(fence_after(written, exchange.id), [answer()], end, trail=[a_usage()])
    await store.finishing.all()
    counts = [
        (1, "messages insert_many"),
        (1, "session_states insert_one"),
        (1, "usage bulk_write"),
        (2, "sessions find_one_and_update"),
    ]
    # For these only a question waits that comes at once.
    finishes = [(3, "kpi_records bulk_write"), (3, "session_states bulk_write"), (4, "exchanges bulk_write")]
    forgotten = [(3, "session_states find")] if forgets else []
    assert trips.take() == sorted([*counts, *finishes, *forgotten])


async def test_the_first_question_of_a_session_waits_for_three_round_trips(open_mongo: OpenMongo) -> None:
    store, session = await open_mongo(), a_session()
    trips = Trips(store)
    await store.begin_exchange(an_exchange(session), question(), session)
    assert trips.take() == [(1, "exchanges insert_one"), (2, "messages insert_many"), (3, "sessions insert_one")]
