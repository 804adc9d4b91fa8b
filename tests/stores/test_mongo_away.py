"""Why MongoDB is away, as operations of a store find it: in one word, which the metric and the log have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing

import pytest
from services.mongo_java import MongoJava
from services.mongodb import fresh_database
from support.recorded_agents import away_for
from support.refusing_mongodb import SignInLine, refusal, sign_in_line

from agentic_backend.errors import StoreUnavailable
from agentic_backend.kpi import Kpi
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.driver import Driver
from agentic_backend.system_errors import Away
from tests.stores.samples import a_session

PATIENCE_S, HURRY_S = 20.0, 2.0
pytestmark = [pytest.mark.mongodb, pytest.mark.timeout(300)]


class Seen:
    """A store behind a line, and what is told of it."""

    def __init__(self, line: SignInLine, store: MongoStore, kpi: Kpi) -> None:
        self.line, self.store, self.kpi = line, store, kpi

    async def read(self) -> None:
        await self.store.get_session("any")

    async def write(self) -> None:
        await self.store.create_session(a_session())

    async def fails(self, *why: Away) -> None:
        """Reads and writes fail, both for this reason; none of them shows another one."""
        for operation in (self.read, self.write, self.read):
            with pytest.raises(StoreUnavailable):
                await operation()
            assert await asyncio.to_thread(away_for, self.kpi, "store") == list(why)

    async def works(self) -> None:
        """At the latest when the driver has found the server again."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await self.read()
                    await self.write()
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.1)
        assert await asyncio.to_thread(away_for, self.kpi, "store") == []


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The reasons in the log, those of one kind as one."""
    reasons = [vars(record)["reason"] for record in caplog.records if record.message == "MongoDB failed"]
    return [reason for at, reason in enumerate(reasons) if at == 0 or reasons[at - 1] != reason]


@pytest.fixture
def kpi() -> Kpi:
    # Not in the event loop: it reads files.
    return Kpi()


@pytest.fixture(params=["pymongo", "motor"])
async def seen(request: pytest.FixtureRequest, mongo_java: MongoJava, kpi: Kpi) -> AsyncIterator[Seen]:
    driver: Driver = request.param
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(fresh_database(f"mongodb://127.0.0.1:{mongo_java.port}/"))
        line = await stack.enter_async_context(sign_in_line(mongo_java.port))
        store = await stack.enter_async_context(
            aclosing(
                await MongoStore.open(
                    line.url(url.rpartition("/")[2]),
                    driver=driver,
                    timeout_s=PATIENCE_S,
                    observe=kpi.dependencies.store_operation,
                )
            )
        )
        seen = Seen(line, store, kpi)
        await seen.works()
        store.driver._timeout_s = HURRY_S
        yield seen
        store.driver._timeout_s = PATIENCE_S


async def test_the_reason_of_an_outage_is_told_again_when_it_changes(
    seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """A changed password does not end a connection: it is refused when the next one is made."""
    seen.line.password = "changed"
    await seen.works()
    async with seen.line.another_password():
        await seen.fails("refused_credentials")
        async with seen.line.refused():
            await seen.fails("unreachable")
        await seen.fails("refused_credentials")
    await seen.works()
    async with seen.line.black_holed():
        await seen.fails("no_answer")
    await seen.works()
    # The driver may notice at its first operation only that its connection is gone.
    reasons = [reason for at, reason in enumerate(told(caplog)) if (at, reason) != (0, "unreachable")]
    assert reasons[:4] == ["refused_credentials", "unreachable", "refused_credentials", "no_answer"]
    assert "ann:first" not in caplog.text


@pytest.mark.parametrize(
    ("code", "name", "why"),
    [
        (13, "Unauthorized", "no_permission"),
        (10107, "NotWritablePrimary", "read_only"),
        (14031, "OutOfDiskSpace", "full"),
        (8, "UnknownError", "other"),
    ],
)
async def test_a_refusal_of_writes_is_not_taken_back_by_reads(seen: Seen, code: int, name: str, why: Away) -> None:
    seen.line.refuse = lambda command: refusal(code, name) if command in ("insert", "update") else None
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await seen.write()
        await seen.read()
        assert await asyncio.to_thread(away_for, seen.kpi, "store") == ([] if why == "other" else [why])
    seen.line.refuse = lambda command: None
    await seen.works()
