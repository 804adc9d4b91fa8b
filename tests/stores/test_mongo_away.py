"""Why MongoDB is away, as operations of a store find it: in one word, which the metric and the log have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from pymongo.errors import OperationFailure
from services.mongo_java import MongoJava
from services.mongodb import fresh_database
from support.certificates import certificate
from support.recorded_agents import away_for
from support.refusing_mongodb import HELLO, SignInLine, refusal, sign_in_line

from agentic_backend.errors import StoreUnavailable
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.driver import why_away
from agentic_backend.system_errors import Away
from tests.stores.samples import a_session

PATIENCE_S, HURRY_S = 20.0, 1.0
FAILED = "MongoDB failed"
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
        for operation in (self.read, self.write):
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


def reasons_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The reasons in the log, those of one kind as one."""
    reasons = [vars(record)["reason"] for record in caplog.records if record.message == FAILED]
    return [reason for at, reason in enumerate(reasons) if at == 0 or reasons[at - 1] != reason]


@pytest.fixture
def kpi() -> Kpi:
    # Not in the event loop: it reads files.
    return Kpi()


@asynccontextmanager
async def seeing(line: SignInLine, kpi: Kpi, options: str = "") -> AsyncIterator[Seen]:
    """A store behind the line that works, and is in a hurry from now on."""
    async with fresh_database(f"mongodb://127.0.0.1:{line.target}/") as url:
        opening = MongoStore.open(
            line.url(url.rpartition("/")[2]) + options,
            timeout_s=PATIENCE_S,
            observe=kpi.dependencies.store_operation,
        )
        async with aclosing(await opening) as store:
            seen = Seen(line, store, kpi)
            await seen.works()
            store.driver._timeout_s = HURRY_S
            yield seen
            store.driver._timeout_s = PATIENCE_S


@pytest.fixture
async def line(mongo_java: MongoJava) -> AsyncIterator[SignInLine]:
    async with sign_in_line(mongo_java.port) as line:
        yield line


@pytest.fixture
async def seen(line: SignInLine, kpi: Kpi) -> AsyncIterator[Seen]:
    async with seeing(line, kpi) as seen:
        yield seen


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
    reasons = [reason for at, reason in enumerate(reasons_of(caplog)) if (at, reason) != (0, "unreachable")]
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


async def test_a_certificate_that_expires(
    line: SignInLine, kpi: Kpi, certificates: tuple[Path, Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    good, expired, trusted = certificates
    await line.present(good)
    async with seeing(line, kpi, f"&tls=true&tlsCAFile={trusted}") as seen:
        await line.present(expired)
        await seen.fails("certificate")
        await line.present(good)
        await seen.works()
    [error] = {vars(record)["error"].partition(": ")[2] for record in caplog.records if record.message == FAILED}
    assert error == "certificate verify failed: certificate has expired"


async def test_a_replica_set_that_loses_its_primary(line: SignInLine, kpi: Kpi) -> None:
    member = f"127.0.0.1:{line.port}"
    told = {"setName": "rs", "hosts": [member], "me": member, "setVersion": 1, "localTime": utc_now()}
    primary = {**HELLO, **told, "primary": member}
    line.refuse = lambda command: primary if command.lower() in ("hello", "ismaster") else None
    async with seeing(line, kpi, "&replicaSet=rs") as seen:
        secondary = {**HELLO, **told, "isWritablePrimary": False, "ismaster": False, "secondary": True}
        line.refuse = lambda command: secondary if command.lower() in ("hello", "ismaster") else None
        await line.cut()
        # Until the driver has seen what it is now, the line is what failed.
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with pytest.raises(StoreUnavailable):
                    await seen.read()
                if await asyncio.to_thread(away_for, kpi, "store") == ["read_only"]:
                    break
        await seen.fails("read_only")
        # So long that the driver itself gives up.
        seen.store.driver._timeout_s = 5
        await seen.fails("read_only")


def test_a_refusal_whose_lists_are_null_has_its_reason() -> None:
    details = {"code": 13, "writeErrors": None, "writeConcernErrors": None}
    assert why_away(OperationFailure("refused", 13, details)) == "no_permission"


async def test_a_host_without_an_address(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreUnavailable):
        await MongoStore.open("mongodb://nothing.invalid/x", timeout_s=HURRY_S)
    assert reasons_of(caplog) == ["unknown_host"]


async def test_a_server_that_never_says_anything(line: SignInLine, caplog: pytest.LogCaptureFixture) -> None:
    async with line.black_holed():
        with pytest.raises(StoreUnavailable):
            await MongoStore.open(line.url("x"), timeout_s=HURRY_S)
    assert reasons_of(caplog) == ["no_answer"]


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A good one and an expired one, and a file that trusts both."""
    good, expired = certificate(tmp_path / "good.pem"), certificate(tmp_path / "expired.pem", is_expired=True)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(good.read_bytes() + expired.read_bytes())
    return good, expired, trusted
