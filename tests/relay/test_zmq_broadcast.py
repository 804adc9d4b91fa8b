"""Workers' broadcasts over real Unix sockets: what one publishes of an exchange, the other has in a log of its own."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.broadcasting import (
    Instance,
    a_log,
    a_worker,
    ask,
    carry_a_thousand_events,
    end,
    same,
    say,
    start,
    store,
    until,
)
from support.log_client import LogClient
from support.recorded_agents import metric

from agentic_backend.protocol.messages import Session, utc_now
from agentic_backend.relay.control_messages import Changed, ListChanged
from agentic_backend.relay.log import mirror
from agentic_backend.relay.zmq import broadcast as zmq_broadcast
from agentic_backend.relay.zmq.peers import Peers

WORKERS = 3


class Site:
    """Where workers meet; `worker` starts one in its place."""

    def __init__(self, directory: Path, opened: AsyncExitStack) -> None:
        self._directory = directory
        self._opened = opened
        self._count = 0

    async def worker(self, number: int, opened: AsyncExitStack | None = None) -> Instance:
        self._count += 1
        peers, name = Peers(self._directory, number, WORKERS), f"{number}-{self._count}"
        return await a_worker(opened or self._opened, peers, name)

    async def two(self) -> tuple[Instance, Instance]:
        here, there = await self.worker(0), await self.worker(1)
        await until(lambda: here.listener.misses and there.listener.misses)
        return here, there


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short enough for a socket's path."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.fixture
async def site(opened: AsyncExitStack, directory: Path) -> AsyncIterator[Site]:
    yield Site(directory, opened)


async def test_a_thousand_events_arrive_in_order_and_byte_equal(site: Site) -> None:
    here, there = await site.two()
    await carry_a_thousand_events(here, there)
    await until(lambda: not here.broadcast._publisher._cursors and len(there.broadcast._mirrors) == 0)


async def test_who_comes_late_gets_what_was_and_disturbs_nobody(site: Site) -> None:
    here, there = await site.two()
    log = here.publish(a_log())
    start(log)
    say(log, "one ", "two ")
    store(log, 0, "one two ", 0)
    say(log, "three ", block=1)
    early = there.follow("e")
    await same(early.log, log)
    say(log, "four", block=1)
    late = (await site.worker(2)).follow("e")
    for client in (early, late):
        await same(client.log, log)
        client.catch_up()
    assert early.transcript == late.transcript and late.resets == early.resets == 0
    say(log, " five", block=1)
    end(log)
    for client in (early, late):
        await same(client.log, log)
        client.catch_up()
        assert client.resets == 0


async def test_an_exchange_that_nobody_follows_elsewhere_is_not_read(site: Site) -> None:
    here, _ = await site.two()
    log = here.publish(a_log())
    start(log)
    say(log, "one")
    await asyncio.sleep(0.1)
    assert not log.is_followed


async def test_what_is_told_reaches_the_other_and_not_oneself(site: Site) -> None:
    here, there = await site.two()
    session = Session(
        id="s", user_id="ann", agent_id="a", title="T", created_at=utc_now(), updated_at=utc_now(), next_rank=0
    )
    here.broadcast.stop("told")
    here.broadcast.started(a_log("told"))
    here.broadcast.tell(Changed(session=session))
    here.broadcast.tell(ListChanged(user_id="ann", session_id="s"))
    await until(lambda: len(there.listener.told) == 4)
    assert there.listener.told == [
        ("stopped", "told"),
        ("started", "s", "told", "ann"),
        ("changed", session),
        ("news", "ann", "s", None),
    ]
    assert here.listener.told == []


async def test_who_joins_is_told_what_runs_and_what_was_to_be_stopped(site: Site) -> None:
    here, there = await site.two()
    running, waiting, ended = (here.publish(a_log(name)) for name in ("runs", "waits", "has ended"))
    for log in (running, waiting, ended):
        start(log)
    ask(waiting)
    end(ended)
    here.broadcast.stop("unheard")
    await until(lambda: ("stopped", "unheard") in there.listener.told)
    joining = await site.worker(2)
    await until(lambda: len(joining.listener.told) == 2)
    assert joining.listener.told == [("started", "s", "runs", "ann"), ("stopped", "unheard")]


async def test_a_listener_that_fails_is_told_on(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    here, there = await site.two()
    there.listener.fails = True
    here.broadcast.stop("x")
    await until(lambda: "handling a broadcast message failed" in caplog.text)
    there.listener.fails = False
    here.broadcast.stop("y")
    await until(lambda: ("stopped", "y") in there.listener.told)


async def test_an_exchange_that_waits_goes_on_elsewhere(site: Site) -> None:
    here, there = await site.two()
    log = here.publish(a_log("waits"))
    start(log)
    far = there.follow("waits")
    ask(log)
    await same(far.log, log)
    here.broadcast.mirror(log)
    far.log.jump_to(log.last_seq + 2000)
    there.publish(far.log)
    near = LogClient(log)
    store(far.log, 0, "approved")
    end(far.log)
    await until(lambda: log.final is not None)
    near.catch_up()
    far.catch_up()
    assert near.messages == far.messages and near.final == far.final


async def test_a_worker_that_is_replaced_hears_and_is_heard_again(site: Site) -> None:
    here, _ = await site.two()
    async with AsyncExitStack() as first:
        dying = await site.worker(2, first)
        lost = dying.publish(a_log("lost"))
        start(lost)
        far = here.follow("lost")
        await same(far.log, lost)
    misses = here.listener.misses
    log = here.publish(a_log("goes on"))
    start(log)
    again = await site.worker(2)
    late = again.follow("goes on")
    await same(late.log, log)
    await until(lambda: here.listener.misses > misses)
    told = again.publish(a_log("new"))
    start(told)
    say(told, "text")
    await same(here.follow("new").log, told)


async def test_messages_that_are_lost_are_noticed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmq_broadcast, "_WAITING_AT_MOST", 100)
    here, there = await site.two()
    log = here.publish(a_log())
    start(log)
    far = there.follow("e")
    await same(far.log, log)
    misses = there.listener.misses
    # In one turn of the loop, so that the other one can't read meanwhile.
    for number in range(5_000):
        here.broadcast.stop("x" * 1000)
        say(log, "word ", block=number)
        here.broadcast.flush()
    assert len(there.listener.told) < 5_000
    await until(lambda: there.listener.misses > misses)
    say(log, "last")
    await same(far.log, log)
    end(log)
    await same(far.log, log)
    assert len([told for told in there.listener.told if told[0] == "stopped"]) < 5_000


async def test_a_mirror_that_nobody_follows_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "UNFOLLOWED_S", 0.5)
    here, there = await site.two()
    log = here.publish(a_log("left"))
    start(log)
    far = there.follow("left")
    await same(far.log, log)
    await asyncio.sleep(1)
    assert len(there.broadcast._mirrors) == 1
    far.leave()
    await until(lambda: len(there.broadcast._mirrors) == 0)
    await until(lambda: not log.is_followed)
    say(log, "more")
    far.follow()
    there.broadcast.mirror(far.log)
    await same(far.log, log)


async def test_closing_publishes_what_is_left(site: Site) -> None:
    there = await site.worker(1)
    far = there.follow("closing")
    async with AsyncExitStack() as first:
        here = await site.worker(0, first)
        await until(lambda: here.listener.misses and there.listener.misses)
        log = here.publish(a_log("closing"))
        start(log)
        say(log, "last words")
        end(log)
    await same(far.log, log)


async def test_a_directory_that_is_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        async with AsyncExitStack() as opened:
            await Site(tmp_path / "gone", opened).worker(0)


async def test_a_worker_whose_sockets_fail_tells_why(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    here = await site.worker(0)
    assert here.ups == [True]
    here.broadcast._hearing.close()
    await until(lambda: here.ups == [True, False])
    assert metric(here.kpi, "chat_dependency_away", dependency="broadcast", reason="other")
    [line] = [record for record in caplog.records if record.message == "the broadcast is away"]
    assert getattr(line, "reason", None) == "other"
