"""What a client is shown, whatever door it came through, and when its feed ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest
from support.broadcasting import a_log, end, say, start
from support.recorded_agents import eventually
from support.scripted_run import ScriptedRun
from support.sessions import idle_relay

from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.events import Event, ExchangeEvent, Final, Idle, Pong, SessionChanged, SessionDeleted
from agentic_backend.protocol.messages import ExchangeStatus, Session, utc_now
from agentic_backend.relay.feed import Feed, open_feed
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.relay import Relay

PATIENCE_S = 10


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    relay = idle_relay()
    yield relay
    relay.drain.cut_short.set()
    await relay.aclose()


class Client:
    """Reads its feed in a task of its own; `seen` is what it was shown."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.seen: list[Event] = []

    async def read(self) -> None:
        async for event in self.feed:
            self.seen.append(event)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.seen]


@asynccontextmanager
async def reading(relay: Relay) -> AsyncIterator[Client]:
    with open_feed(relay, 0.001) as feed:
        client = Client(feed)
        task = asyncio.create_task(client.read())
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled() or task.exception() is None


def a_session(session_id: str = "s", title: str = "A title") -> Session:
    now = utc_now()
    return Session(id=session_id, user_id="ann", agent_id="agent", title=title, created_at=now, updated_at=now)


def a_final(exchange_id: str = "gone") -> Final:
    log = a_log(exchange_id)
    start(log)
    end(log)
    assert log.final is not None
    return log.final


async def shown(feed: Feed) -> list[Event]:
    """Everything, of a feed that ends."""
    async with asyncio.timeout(PATIENCE_S):
        return [event async for event in feed]


async def test_it_shows_any_number_of_exchanges_each_up_to_its_final(relay: Relay) -> None:
    logs = [a_log(f"e{number}") for number in range(3)]
    async with reading(relay) as client:
        for log in logs:
            client.feed.follow(log, 0)
            start(log)
            say(log, "hello")
        await eventually(lambda: client.types.count("delta") == 3)
        for log in logs:
            end(log)
        await eventually(lambda: client.types.count("final") == 3)
        for log in logs:
            own = [
                event
                for event in client.seen
                if isinstance(event, ExchangeEvent) and event.exchange_id == log.exchange_id
            ]
            assert [event.type for event in own] == ["started", "delta", "final"]
            assert not log.is_followed


async def test_another_follow_moves_the_one_cursor_also_to_another_log_of_the_exchange(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        log, newer = a_log(), a_log()
        for one in (log, newer):
            start(one)
            say(one, "hello")
            end(one)
        assert feed.follow(log, 0) == "replayed"
        assert feed.follow(log, 2) == "replayed"
        assert feed.follow(newer, 1) == "replayed"
        assert not log.is_followed
        assert feed.follow(newer, 3) == "live", "it has all that there is"
        assert not newer.is_followed
        assert feed.follow(newer, 17) == "reset"


@pytest.mark.parametrize("after_seq", [0, 1, 1_000_000])
async def test_of_an_exchange_whose_events_are_gone_it_shows_the_final_to_who_does_not_have_it(
    relay: Relay, after_seq: int
) -> None:
    final = a_final()
    with open_feed(relay, 0.001) as feed:
        assert feed.follow(ExchangeLog.of_final(final, "ann"), after_seq) == "replayed"
        feed.end(CloseCode.RESTART)
        assert await shown(feed) == [final]


async def test_who_has_the_final_does_not_follow_an_exchange_whose_events_are_gone(relay: Relay) -> None:
    final = a_final()
    with open_feed(relay, 0.001) as feed:
        assert feed.follow(ExchangeLog.of_final(final, "ann"), final.seq) == "live"
        assert not feed.follows(final.exchange_id)


async def test_one_exchange_alone_ends_the_feed_with_its_final(relay: Relay) -> None:
    log = a_log()
    start(log)
    end(log)
    with open_feed(relay, 0.001) as feed:
        feed.follow_only(log)
        assert [event.type for event in await shown(feed)] == ["started", "final"]
        assert feed.close_code is None


async def test_a_query_ends_with_the_feed_of_who_asked_and_an_exchange_of_a_session_does_not(relay: Relay) -> None:
    query, ask = ScriptedRun.begin(relay, "query", None), ScriptedRun.begin(relay, "ask")
    async with reading(relay) as client:
        client.feed.follow_asked(query.log)
        client.feed.follow_asked(ask.log)
        async with reading(relay) as other:
            other.feed.follow(query.log, 0)
        assert not query.was_stopped, "following it is not asking for it"
    assert query.was_stopped and not ask.was_stopped
    ask.finish()


async def test_a_query_that_is_shown_alone_ends_with_the_feed_too(relay: Relay) -> None:
    query, ask = ScriptedRun.begin(relay, "query", None), ScriptedRun.begin(relay, "ask")
    for run in (query, ask):
        with open_feed(relay, 0.001) as feed:
            feed.follow_only(run.log)
    assert query.was_stopped and not ask.was_stopped
    ask.finish()


async def test_every_stop_but_the_first_is_answered_by_idle_after_the_end(relay: Relay) -> None:
    run = ScriptedRun.begin(relay, "e")
    async with reading(relay) as client:
        for _ in range(3):
            client.feed.stopped(run.log)
        run.finish()
        await eventually(lambda: client.types.count("idle") == 2)
        assert client.types == ["final", "idle", "idle"]
        client.feed.stopped(a_session())
        client.feed.stopped(None)
        await eventually(lambda: client.types.count("idle") == 4)
        assert [event.session_id for event in client.seen if isinstance(event, Idle)][2:] == ["s", None]


async def test_a_session_is_followed_from_what_runs_in_it_to_every_later_exchange(relay: Relay) -> None:
    async with reading(relay) as client:
        assert client.feed.follow_session(a_session(), None) == "live"
        first = ScriptedRun.begin(relay, "first")
        first.finish()
        await eventually(lambda: "final" in client.types)
        assert client.types == ["idle", "started", "final"]
        second = ScriptedRun.begin(relay, "second")
        async with reading(relay) as late:
            # It began after the session was read.
            assert late.feed.follow_session(a_session(), None) == "replayed"
            await eventually(lambda: late.types == ["started"])
        client.feed.unfollow_session("s")
        relay.session_changed(a_session(title="Another"))
        second.finish()
        client.feed.answer(Pong())
        await eventually(lambda: "pong" in client.types)
        assert client.types.count("final") == 1 and "session" not in client.types


async def test_a_change_that_was_not_told_is_not_told_after_an_unfollow(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        for session_id in ("s", "kept"):
            feed.follow_session(a_session(session_id), None)
            relay.session_changed(a_session(session_id, "Another"))
        feed.unfollow_session("s")
        feed.end(CloseCode.RESTART)
        told = [event.session.id for event in await shown(feed) if isinstance(event, SessionChanged)]
    assert told == ["kept"]


async def test_changes_of_all_sessions_that_were_not_told_are_not_told_after_their_unfollow(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        feed.follow_session(a_session("followed"), None)
        feed.follow_sessions("ann")
        for session_id in ("s", "followed"):
            feed.session_told(SessionChanged(session=a_session(session_id)))
        feed.unfollow_session("s")
        feed.unfollow_sessions()
        feed.end(CloseCode.RESTART)
        told = [event.session.id for event in await shown(feed) if isinstance(event, SessionChanged)]
    assert told == ["followed"]


async def test_what_was_seen_of_an_exchange_is_not_shown_again(relay: Relay) -> None:
    run = ScriptedRun.begin(relay, "e")
    say(run.log, "hello")
    with open_feed(relay, 0.001) as feed:
        feed.follow_session(a_session(), run.log, (run.log, 1))
        run.finish()
        feed.end(CloseCode.RESTART)
        assert [event.type for event in await shown(feed)] == ["delta", "final"]
    with open_feed(relay, 0.001) as feed:
        feed.follow_session(a_session(), None, (run.log, run.log.last_seq))
        feed.end(CloseCode.RESTART)
        assert [event.type for event in await shown(feed)] == ["idle"]


async def test_a_session_whose_exchange_ends_while_it_is_read_is_idle_for_who_has_all_of_it(relay: Relay) -> None:
    log = a_log()
    start(log)
    end(log)
    assert log.final is not None
    with open_feed(relay, 0.001) as feed:
        # It ran when the session was read, and has ended since.
        feed.follow_session(a_session(), log, (log, log.final.seq))
        feed.end(CloseCode.RESTART)
        assert [event.type for event in await shown(feed)] == ["idle"]


async def test_who_asks_without_reading_is_heard_no_further_until_it_has_caught_up(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        for answers in (256, 4):
            for number in range(answers):
                await asyncio.wait_for(feed.room(), PATIENCE_S)
                if answers == 4:
                    feed.follow(ExchangeLog.of_final(a_final(f"gone {number}"), "ann"), 0)
                else:
                    feed.answer(Pong())
            waiting = asyncio.create_task(feed.room())
            await asyncio.sleep(0)
            assert not waiting.done()
            for _ in range(answers):
                await anext(feed)
            after = asyncio.ensure_future(anext(feed))
            await asyncio.wait_for(waiting, PATIENCE_S)
            after.cancel()
            await asyncio.wait({after})


async def test_nobody_waits_for_room_in_a_feed_that_ends(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        for _ in range(256):
            feed.answer(Pong())
        waiting = asyncio.create_task(feed.room())
        await asyncio.sleep(0)
        feed.end(CloseCode.INTERNAL_ERROR)
        await asyncio.wait_for(waiting, PATIENCE_S)


async def test_it_ends_with_its_token_and_shows_first_what_is_there(relay: Relay) -> None:
    run = ScriptedRun.begin(relay, "e")
    with open_feed(relay, 0.001) as feed:
        feed.end_after(0)
        feed.end_after(3_600)
        feed.follow(run.log, 0)
        assert (await anext(feed)).type == "started"
        feed.answer(Pong())
        feed.end_after(0)
        assert [event.type for event in await shown(feed)] == ["pong"]
        assert feed.close_code is CloseCode.SIGN_IN_AGAIN
    run.finish()


async def test_the_first_reason_to_end_stays(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        feed.end(CloseCode.SIGN_IN_AGAIN)
        feed.end(CloseCode.INTERNAL_ERROR)
        assert await shown(feed) == [] and feed.close_code is CloseCode.SIGN_IN_AGAIN


async def test_a_drain_sends_away_who_is_idle_and_others_when_what_they_follow_has_ended(relay: Relay) -> None:
    run, waiting = ScriptedRun.begin(relay, "e"), a_log("waits elsewhere")
    start(waiting)
    with ExitStack() as stack:
        idle, busy, asking = (stack.enter_context(open_feed(relay, 0.001)) for _ in range(3))
        idle.follow(waiting, 1)
        busy.follow(run.log, 0)
        answering = stack.enter_context(ExitStack())
        answering.enter_context(asking.answering())
        feeds = {feed: asyncio.create_task(shown(feed)) for feed in (idle, busy, asking)}
        relay.drain.begin(0)
        assert await feeds[idle] == [] and idle.close_code is CloseCode.RESTART
        assert not feeds[busy].done() and not feeds[asking].done()
        answering.close()
        assert await feeds[asking] == []
        run.finish()
        assert [event.type for event in await feeds[busy]] == ["started", "final"]
        assert busy.close_code is CloseCode.RESTART


async def test_of_many_changes_of_a_session_the_latest_is_shown(relay: Relay) -> None:
    async with reading(relay) as client:
        run = ScriptedRun.begin(relay, "e")
        client.feed.follow_asked(run.log)
        for number in range(100):
            relay.session_changed(a_session(title=f"title {number}"))
        run.finish()
        await eventually(lambda: "session" in client.types)
        [changed] = [event for event in client.seen if isinstance(event, SessionChanged)]
        assert changed.session.title == "title 99"


async def test_so_many_sessions_are_watched_and_the_first_is_let_go(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        for number in range(1_001):
            feed.follow_session(a_session(f"s{number}"), None)
        assert not relay.session_subscriptions.want_exchanges("s0")
        assert relay.session_subscriptions.want_exchanges("s1") and relay.session_subscriptions.want_exchanges("s1000")
    assert not relay.session_subscriptions.want_exchanges("s1000")


async def test_of_a_list_a_slow_client_gets_the_newest_state_of_each_session(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        feed.follow_sessions("ann")
        for told in (
            SessionChanged(session=a_session("s", "First"), status=ExchangeStatus.RUNNING),
            SessionChanged(session=a_session("t"), status=ExchangeStatus.RUNNING),
            SessionChanged(session=a_session("s", "Second"), status=ExchangeStatus.ERROR),
            SessionChanged(session=a_session("s", "Third")),
            SessionDeleted(session_id="t"),
        ):
            relay.list_subscriptions.tell("ann", told)
        relay.list_subscriptions.tell("bob", SessionDeleted(session_id="x"))
        events = [await anext(feed) for _ in range(3)]
    assert [event.type for event in events] == ["following_sessions", "session", "session_deleted"]
    assert isinstance(events[1], SessionChanged)
    # How the exchange ended is not lost with the new title.
    assert (events[1].session.title, events[1].status) == ("Third", ExchangeStatus.ERROR)


async def test_a_client_that_misses_too_much_reads_its_list_again(relay: Relay) -> None:
    with open_feed(relay, 0.001) as feed:
        feed.follow_sessions("ann")
        for number in range(1_001):
            relay.list_subscriptions.tell("ann", SessionDeleted(session_id=str(number)))
        relay.list_subscriptions.tell("ann", SessionDeleted(session_id="later"))
        events = [await anext(feed) for _ in range(3)]
    assert [event.type for event in events] == ["following_sessions", "following_sessions", "session_deleted"]
    assert not relay.list_subscriptions.has("ann")
