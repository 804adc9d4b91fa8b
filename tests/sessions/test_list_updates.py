"""What those who follow all their sessions are told: read from the store, newest state, whatever fails meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.recorded_agents import echoing_graph, eventually
from support.sessions import USER, Sessions, open_sessions

from agentic_backend.protocol.events import SessionChanged, SessionDeleted
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.sessions import list_updates
from agentic_backend.stores.base import SessionChange


class Subscriber:
    def __init__(self) -> None:
        self.told: list[SessionChanged | SessionDeleted] = []
        self.misses = 0

    def session_told(self, told: SessionChanged | SessionDeleted) -> None:
        self.told.append(told)

    def missed(self) -> None:
        self.misses += 1

    @property
    def titles(self) -> list[str]:
        return [told.session.title for told in self.told if isinstance(told, SessionChanged)]


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Sessions]:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        yield sessions


@pytest.fixture
def subscriber(sessions: Sessions) -> Subscriber:
    subscriber = Subscriber()
    sessions.relay.list_subscriptions.add(USER.id, subscriber)
    return subscriber


async def test_an_outage_of_the_store_delays_what_is_told(sessions: Sessions, subscriber: Subscriber) -> None:
    session = await sessions.service.open(USER, "echo", "First", None)
    await eventually(lambda: subscriber.told)
    with sessions.store.away("get_session"):
        for title in ("Second", "Third"):
            await sessions.store.real.change_session(session.id, SessionChange(title=title))
            sessions.relay.tell_lists(USER.id, session.id, ExchangeStatus.ERROR if title == "Second" else None)
        await asyncio.sleep(0)
        assert subscriber.titles == ["First"]
    await eventually(lambda: len(subscriber.told) == 2)
    last = subscriber.told[-1]
    assert isinstance(last, SessionChanged)
    assert (last.session.title, last.status) == ("Third", ExchangeStatus.ERROR)


async def test_a_failure_costs_one_look_at_the_list_and_no_later_news(
    sessions: Sessions, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(list_updates, "statuses_of", None)
        session = await sessions.service.open(USER, "echo", "First", None)
        await eventually(lambda: subscriber.misses)
    assert subscriber.told == []
    await sessions.store.real.change_session(session.id, SessionChange(title="Second"))
    sessions.relay.tell_lists(USER.id, session.id)
    await eventually(lambda: subscriber.told)
    assert subscriber.titles == ["Second"]


async def test_a_session_that_is_anothers_is_told_as_gone(sessions: Sessions, subscriber: Subscriber) -> None:
    """A message between instances names the user; the store decides whose a session is."""
    session = await sessions.service.open(USER, "echo", "Mine", None)
    await eventually(lambda: subscriber.told)
    stranger = Subscriber()
    sessions.relay.list_subscriptions.add("mallory", stranger)
    sessions.relay.list_changed_elsewhere("mallory", session.id, None)
    await eventually(lambda: stranger.told)
    assert stranger.told == [SessionDeleted(session_id=session.id)]


async def test_without_a_follower_nothing_is_read(sessions: Sessions) -> None:
    session = await sessions.service.open(USER, "echo", "Unheard", None)
    with sessions.store.away("get_session"):
        sessions.relay.tell_lists(USER.id, session.id)
        await asyncio.sleep(0)
    subscriber = Subscriber()
    sessions.relay.list_subscriptions.add(USER.id, subscriber)
    sessions.relay.tell_lists(USER.id, session.id)
    await eventually(lambda: subscriber.told)
    assert len(subscriber.told) == 1


async def test_too_many_changes_make_followers_read_their_lists_again(
    sessions: Sessions, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_updates, "_UNREAD_AT_MOST", 5)
    for number in range(6):
        sessions.relay.tell_lists(USER.id, f"session {number}")
    assert subscriber.misses == 1
    await sessions.service.open(USER, "echo", "After it", None)
    await eventually(lambda: subscriber.titles == ["After it"])
