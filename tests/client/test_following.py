"""The client follows sessions, the list of them, and exchanges that another one began."""

from support import paced_agent
from support.chat_client import chat
from support.client_exchanges import WHOLE, until
from support.running_server import RunningServer

from agentic_backend.client import (
    Chat,
    Event,
    Final,
    FollowingSessions,
    Idle,
    SessionChanged,
    SessionDeleted,
    Started,
    connect,
)


async def test_a_session_is_followed_with_all_its_later_exchanges(ann: Chat) -> None:
    session = await ann.rest.open_session("echo", title="Mine")
    feed = ann.follow(session.id)
    assert isinstance(await anext(feed), Idle)
    for question in ("one", "two"):
        await ann.ask_text(question, session_id=session.id)
        events: list[Event] = []
        while not events or not isinstance(events[-1], Final):
            events.append(await anext(feed))
        assert isinstance(events[0], Started)
    await ann.rest.rename_session(session.id, "Ours")
    while not isinstance(event := await anext(feed), SessionChanged) or event.session.title != "Ours":
        pass
    feed.close()
    assert [event async for event in feed] == []
    assert await ann.ask_text("three", session_id=session.id) == "echo: three"


async def test_the_list_of_sessions_is_followed(ann: Chat) -> None:
    sessions = ann.follow_sessions()
    assert isinstance(await anext(sessions), FollowingSessions)
    session = await ann.rest.open_session("echo", title="Mine")
    first = await anext(sessions)
    assert isinstance(first, SessionChanged) and first.session.id == session.id
    await ann.ask_text("one", session_id=session.id)
    while not isinstance(event := await anext(sessions), SessionChanged) or event.status != "ok":
        pass
    assert (await ann.rest.mark_session(session.id, pinned=True, archived=True)).archived
    assert [each.id async for each in ann.rest.sessions(archived=True, pinned=True)] == [session.id]
    assert [each async for each in ann.rest.sessions(archived=False)] == []
    await ann.rest.delete_session(session.id)
    while not isinstance(event := await anext(sessions), SessionDeleted):
        pass
    assert event.session_id == session.id
    sessions.close()
    assert [event async for event in sessions] == []


async def test_a_second_client_follows_what_the_first_one_asked(server: RunningServer, ann: Chat) -> None:
    pace = paced_agent.begin()
    exchange = ann.ask(paced_agent.ASK, agent_id="paced")
    await until(exchange, Started)
    assert exchange.session_id is not None and exchange.exchange_id is not None
    async with connect(server.address, token="dev:ann") as tab:
        feed, other = tab.follow(exchange.session_id), tab.follow_exchange(exchange.exchange_id)
        pace.finish()
        text = await other.answer()
        assert text == await exchange.answer() == WHOLE
        seen = [await anext(feed)]
        while not isinstance(seen[-1], Final):
            seen.append(await anext(feed))
        assert sum(isinstance(event, Final) for event in seen) == 1


async def test_no_longer_following_a_session_leaves_its_asker_all_of_the_answer(ann: Chat) -> None:
    pace = paced_agent.begin()
    exchange = ann.ask(paced_agent.ASK, agent_id="paced")
    await until(exchange, Started)
    assert exchange.session_id is not None
    feed = ann.follow(exchange.session_id)
    pace.write(3)
    await anext(feed)
    feed.close()
    pace.finish()
    assert await exchange.answer() == WHOLE


async def test_another_kind_of_client_sees_what_this_one_does(server: RunningServer, ann: Chat) -> None:
    exchange = ann.ask("hi", agent_id="echo")
    await exchange.answer()
    async with chat(server.address, token="dev:ann") as other:
        await other.send({"type": "follow", "exchange_id": exchange.exchange_id, "after_seq": 0})
        final = await other.ended()
    assert exchange.final is not None
    assert [message.model_dump(mode="json") for message in exchange.messages] == final["messages"]
