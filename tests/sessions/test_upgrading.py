"""The database is brought up to date beside people's work: by one instance at a time, by another if that one dies."""

import asyncio
import logging

import pytest
from services.mongodb import ON_MONGODB
from support.recorded_agents import metric

from agentic_backend.exchange.instance import Instance
from agentic_backend.kpi import Kpi
from agentic_backend.sessions.upkeep import upgrading
from agentic_backend.sessions.upkeep.upgrading import Upgrading
from agentic_backend.stores.mongo import MongoStore, schema
from agentic_backend.stores.mongo.documents import Database
from agentic_backend.stores.mongo.schema import MIGRATIONS, Migration, Step
from tests.stores.conftest import OpenMongo, open_mongo
from tests.stores.faulty_database import make_faulty

__all__ = ["open_mongo"]
pytestmark = pytest.mark.parametrize("mongodb_server", ON_MONGODB, indirect=True)
STEPS = 5


class Steps:
    """A migration of some steps; a step may be held back, or find a document that it can't read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[int] = []
        self.began, self.go_on = asyncio.Event(), asyncio.Event()
        self.unreadable = 0
        self._at_work = 0
        monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, Migration("stepwise", self._step)))

    async def _step(self, database: Database, place: int | None) -> Step:
        self._at_work += 1
        assert self._at_work == 1, "one instance at a time"
        try:
            self.began.set()
            await self.go_on.wait()
        finally:
            self._at_work -= 1
        if self.unreadable:
            self.unreadable -= 1
            raise KeyError("of a document")
        number = (place or 0) + 1
        self.done.append(number)
        return Step(number if number < STEPS else None, 1)


def an_upgrading(store: MongoStore, kpi: Kpi, claim_s: float = 60) -> Upgrading:
    return Upgrading(Instance(15), store, kpi, claim_s=claim_s)


async def test_one_instance_at_a_time_upgrades_and_every_one_knows_when_it_is_done(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stores = [await open_mongo(), await open_mongo()]
    steps, kpis = Steps(monkeypatch), [Kpi(), Kpi()]
    running = [
        asyncio.create_task(an_upgrading(store, kpi, claim_s=1).run()) for store, kpi in zip(stores, kpis, strict=True)
    ]
    async with asyncio.timeout(60):
        await steps.began.wait()
        # The claim is kept during a step that takes longer.
        await asyncio.sleep(2)
        assert metric(kpis[0], "chat_store_upgrades_left") == 1
        steps.go_on.set()
        await asyncio.gather(*running)
    assert steps.done == [1, 2, 3, 4, 5]
    assert [metric(kpi, "chat_store_upgrades_left") for kpi in kpis] == [0, 0]
    told = [(record.message, getattr(record, "migration", None)) for record in caplog.records]
    assert ("database being upgraded", "stepwise") in told
    assert ("database upgraded", None) in told


async def test_when_an_instance_dies_another_one_goes_on_where_it_was(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying, other = await open_mongo(), await open_mongo()
    steps = Steps(monkeypatch)
    steps.go_on.set()
    first = asyncio.create_task(an_upgrading(dying, Kpi(), claim_s=2).run())
    async with asyncio.timeout(60):
        while len(steps.done) < 2:
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait({first})
        done = len(steps.done)
        await an_upgrading(other, Kpi(), claim_s=2).run()
    assert sorted(set(steps.done)) == [1, 2, 3, 4, 5] and len(steps.done) <= STEPS + (done < STEPS)


async def test_while_the_database_is_away_it_is_tried_again_and_told_once(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upgrading, "_RETRY_S", 0.05)
    store = await open_mongo()
    steps = Steps(monkeypatch)
    steps.go_on.set()
    refused = 4

    def fault(collection: str, method: str) -> str:
        nonlocal refused
        if collection == "meta" and refused:
            refused -= 1
            return "refused"
        return "fine"

    make_faulty(store, fault)
    async with asyncio.timeout(60):
        await an_upgrading(store, Kpi()).run()
    assert steps.done == [1, 2, 3, 4, 5]
    told = [record for record in caplog.records if record.message.startswith("database upgrade fails")]
    assert len(told) == 1 and vars(told[0])["code"] == "store_unavailable"


async def test_a_step_that_fails_with_an_error_of_its_own_is_told_once_and_tried_again(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upgrading, "_RETRY_S", 0.05)
    store, steps = await open_mongo(), Steps(monkeypatch)
    steps.go_on.set()
    steps.unreadable = 3
    async with asyncio.timeout(60):
        await an_upgrading(store, Kpi()).run()
    assert steps.done == [1, 2, 3, 4, 5]
    [told] = [record for record in caplog.records if record.message == "database upgrade fails"]
    assert told.exc_info is not None and told.exc_info[0] is KeyError
