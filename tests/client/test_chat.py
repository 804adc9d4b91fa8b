"""The client at a real server: asks, streams, tools, approvals, questions, stops, queries, sessions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support import approval_agents, paced_agent, test_agents
from support.approval_agents import calls, runs
from support.attached_files import a_png
from support.chat_client import chat
from support.running_server import RunningServer, running_server

from agentic_backend.client import (
    AwaitingHuman,
    Chat,
    Closed,
    Delta,
    Event,
    Exchange,
    Final,
    FollowingSessions,
    Idle,
    NotFound,
    PersonNeeded,
    Refused,
    SessionChanged,
    SessionDeleted,
    Started,
    Stream,
    TryLater,
    Unanswered,
    answer,
    approve,
    connect,
    edit,
    places,
    reject,
)
from agentic_backend.offline.phrases import lorem
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart

EMAIL = {"to": "ann@example.org"}
WHOLE = lorem(paced_agent.WORDS)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tools"
    monkeypatch.setenv(approval_agents.NOTES_VARIABLE, str(path))
    return path


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    agents = [*test_agents.ENTRIES, *approval_agents.ENTRIES, paced_agent.ENTRY]
    async with running_server(tmp_path, agents=agents) as server:
        yield server


@pytest.fixture
async def ann(server: RunningServer) -> AsyncIterator[Chat]:
    async with connect(server.address, token="dev:ann") as chat:
        yield chat


async def until(events: Exchange, kind: type[Any]) -> Any:
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__}")


async def waiting(exchange: Exchange) -> AwaitingHuman:
    event: AwaitingHuman = await until(exchange, AwaitingHuman)
    return event


async def test_an_answer_comes_as_it_is_written(ann: Chat) -> None:
    exchange = ann.ask("repeat after me: one two three")
    events = [event async for event in exchange]
    assert isinstance(events[0], Started) and isinstance(events[-1], Final)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "one two three" == exchange.text
    assert [message.rank for message in exchange.messages] == [0, 1]
    assert exchange.final is events[-1] and exchange.final.status == "ok"
    assert exchange.session_id == exchange.final.session_id


async def test_the_text_of_an_answer_is_there_in_one_line(ann: Chat) -> None:
    assert await ann.ask_text("hi", agent_id="echo") == "echo: hi"


async def test_the_text_grows_while_it_is_written(ann: Chat) -> None:
    pace = paced_agent.begin()
    exchange = ann.ask(paced_agent.ASK, agent_id="paced")
    pace.write(5)
    while len(exchange.text.split()) < 5:
        await until(exchange, Delta)
    assert paced_agent.first_words(5) == exchange.text.rstrip()
    pace.finish()
    assert await exchange.answer() == WHOLE


async def test_tools_are_shown_with_their_results(ann: Chat) -> None:
    exchange = ann.ask("what is 12*34?")
    parts = [part async for event in exchange if isinstance(event, Stream) for part in event.message.parts]
    [call] = [part for part in parts if isinstance(part, ToolCallPart)]
    [result] = [part for part in parts if isinstance(part, ToolResultPart)]
    assert result.call_id == call.call_id and result.ok and "408" in result.content


async def test_files_are_attached_to_an_ask(ann: Chat) -> None:
    image, text = await ann.rest.upload("a.png", a_png()), await ann.rest.upload("a.txt", b"text")
    assert (image.mime, text.mime, text.text_chars) == ("image/png", "text/plain", 4)
    said = await ann.ask_text("look", attachments=[image.id, text.id])
    assert said.startswith("I see an image: image/png of ")
    assert await ann.rest.attachment(image.id) == a_png()
    with pytest.raises(Refused, match="deleted with its session"):
        await ann.rest.delete_attachment(image.id)
    unsent = await ann.rest.upload("b.txt", b"text")
    await ann.rest.delete_attachment(unsent.id)
    with pytest.raises(NotFound):
        await ann.rest.attachment(unsent.id)


async def test_answers_are_rated_and_sessions_exported_and_shared(ann: Chat) -> None:
    exchange = ann.ask("my name is Zorblax")
    await exchange.answer()
    session_id = exchange.session_id
    assert session_id is not None
    given = await ann.rest.give_feedback(session_id, 1, "down", "too short")
    assert await ann.rest.feedback(session_id) == [given] and given.comment == "too short"
    await ann.rest.withdraw_feedback(session_id, 1)
    assert await ann.rest.feedback(session_id) == []
    text = b"".join([piece async for piece in ann.rest.export_session(session_id)]).decode()
    assert "> my name is Zorblax" in text
    link = await ann.rest.share_session(session_id, expires_in_days=2)
    assert [share.id for share in await ann.rest.shares(session_id)] == [link.id]
    seen = await ann.rest.shared(link.secret)
    assert [message.rank for message in seen.messages] == [0, 1] and seen.next_after_rank is None
    await ann.rest.revoke_share(session_id, link.id)
    with pytest.raises(NotFound):
        await ann.rest.shared(link.secret)


async def test_a_session_goes_on_with_the_next_ask(ann: Chat) -> None:
    first = ann.ask("my name is Zorblax")
    await first.answer()
    assert first.session_id is not None
    assert "Zorblax" in await ann.ask_text("what is my name?", session_id=first.session_id)
    messages = [message async for message in ann.rest.messages(first.session_id)]
    assert [message.rank for message in messages] == [0, 1, 2, 3]


async def test_two_exchanges_run_at_once_over_one_socket(ann: Chat) -> None:
    pace = paced_agent.begin()
    slow = ann.ask(paced_agent.ASK, agent_id="paced")
    await until(slow, Started)
    assert await ann.ask_text("hi", agent_id="echo") == "echo: hi"
    pace.finish()
    assert await slow.answer() == WHOLE


async def test_a_person_approves_rejects_and_edits(ann: Chat, notes: Path) -> None:
    tools = calls(("send_email", EMAIL), ("send_email", {"to": "b"}), ("send_email", {"to": "c"}))
    exchange = ann.ask(tools, agent_id="approving")
    asked = await waiting(exchange)
    assert exchange.awaiting == asked.payload
    first, second, third = asked.payload.requests
    await ann.decide(asked, approve(first), reject(second, "not to b"), edit(third, {"to": "d"}))
    await exchange.answer()
    assert sorted(to["to"] for _, to in runs(notes)) == [EMAIL["to"], "d"]
    assert exchange.awaiting is None


async def test_a_part_may_be_decided_first(ann: Chat, notes: Path) -> None:
    exchange = ann.ask(calls(("send_email", EMAIL), ("send_email", {"to": "b"})), agent_id="approving")
    asked = await waiting(exchange)
    await ann.decide(asked, approve(asked.payload.requests[0]))
    rest = await waiting(exchange)
    assert [request.args for request in rest.payload.requests] == [{"to": "b"}]
    await ann.decide(rest, reject(rest.payload.requests[0]))
    await exchange.answer()
    assert [to["to"] for _, to in runs(notes)] == [EMAIL["to"]]


async def test_a_decision_that_is_refused_raises_and_leaves_the_exchange_waiting(ann: Chat, notes: Path) -> None:
    exchange = ann.ask(calls(("send_email", EMAIL)), agent_id="approving")
    asked = await waiting(exchange)
    [request] = asked.payload.requests
    with pytest.raises(Refused) as refused:
        await ann.decide(asked, approve(request.model_copy(update={"args_sha256": "0" * 64})))
    assert refused.value.code == "approval_mismatch" and refused.value.request_id
    await ann.decide(asked, approve(request))
    await exchange.answer()
    with pytest.raises(NotFound):
        await ann.decide(asked, approve(request))


async def test_a_person_answers_a_question(ann: Chat) -> None:
    exchange = ann.ask("go", agent_id="asking")
    asked = await waiting(exchange)
    [request] = asked.payload.requests
    with pytest.raises(ValueError, match="question"):
        approve(request)
    await ann.decide(asked, answer(request, "left"))
    assert await exchange.answer() == "You chose left."


async def test_an_answer_that_needs_a_person_says_so(ann: Chat) -> None:
    with pytest.raises(PersonNeeded) as needed:
        await ann.ask_text("go", agent_id="asking")
    exchange, waiting = needed.value.exchange, needed.value.waiting
    await ann.decide(waiting, answer(waiting.payload.requests[0], "right"))
    assert await exchange.answer() == "You chose right."


async def test_a_stop_ends_an_exchange_with_its_text_so_far(ann: Chat) -> None:
    pace = paced_agent.begin()
    exchange = ann.ask(paced_agent.ASK, agent_id="paced")
    pace.write(3)
    await until(exchange, Delta)
    await ann.stop(exchange_id=exchange.exchange_id)
    with pytest.raises(Unanswered) as ended:
        await exchange.answer()
    assert ended.value.final.status == "stopped"
    assert exchange.text and paced_agent.first_words(3).startswith(exchange.text.strip())
    await ann.stop(session_id=exchange.session_id)


async def test_a_stop_of_a_foreign_session_is_refused_as_if_there_were_none(server: RunningServer, ann: Chat) -> None:
    async with connect(server.address, token="dev:bob") as bob:
        exchange = bob.ask("hi", agent_id="echo")
        await exchange.answer()
    with pytest.raises(NotFound) as refused:
        await ann.stop(session_id=exchange.session_id)
    assert refused.value.code == "session_not_found"
    with pytest.raises(NotFound):
        await ann.ask_text("hi", session_id=exchange.session_id or "")
    assert exchange.exchange_id is not None
    with pytest.raises(NotFound):
        await ann.follow_exchange(exchange.exchange_id).answer()


async def test_a_failure_tells_its_code_and_ends_unanswered(ann: Chat) -> None:
    exchange = ann.ask("fail after 3 tokens")
    with pytest.raises(Unanswered) as failed:
        await exchange.answer()
    assert failed.value.final.error is not None and failed.value.final.error.code == "model_error"
    assert exchange.text


async def test_an_ask_that_is_refused_ends_its_iterator_alone(ann: Chat) -> None:
    pace = paced_agent.begin()
    running = ann.ask(paced_agent.ASK, agent_id="paced")
    await until(running, Started)
    assert running.session_id is not None
    with pytest.raises(TryLater) as busy:
        await ann.ask_text("me too", session_id=running.session_id)
    assert busy.value.code == "session_busy" and busy.value.retryable
    with pytest.raises(NotFound):
        await ann.ask_text("hi", agent_id="nobody")
    pace.finish()
    await running.answer()


async def test_an_ask_that_the_protocol_forbids_is_not_sent(ann: Chat) -> None:
    with pytest.raises(ValueError):
        ann.ask("")
    assert await ann.ask_text("hi", agent_id="echo") == "echo: hi"


async def test_an_ask_under_the_same_id_shows_what_it_began(ann: Chat, server: RunningServer) -> None:
    first = ann.ask("hi", agent_id="echo", client_exchange_id="once")
    assert await first.answer() == "echo: hi"
    async with connect(server.address, token="dev:ann") as again:
        second = again.ask("hi", agent_id="echo", client_exchange_id="once")
        assert await second.answer() == "echo: hi"
    assert second.exchange_id == first.exchange_id


async def test_a_query_has_no_session(ann: Chat) -> None:
    exchange = ann.query("hi", agent_id="echo")
    assert await exchange.answer() == "echo: hi"
    assert exchange.session_id is None
    assert [session async for session in ann.rest.sessions()] == []


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


async def test_the_rest_calls_are_typed(ann: Chat) -> None:
    assert {"assistant", "echo"} <= {agent.id for agent in await ann.rest.agents()}
    sessions = [await ann.rest.open_session("echo", title=f"Number {number}") for number in range(3)]
    listed = [session.title async for session in ann.rest.sessions(agent_id="echo", text="Number")]
    assert sorted(listed) == ["Number 0", "Number 1", "Number 2"]
    renamed = await ann.rest.rename_session(sessions[0].id, "Renamed")
    assert renamed.title == "Renamed" == (await ann.rest.session(sessions[0].id)).title
    assert not await ann.rest.cancel_session(sessions[0].id)
    await ann.rest.complete_session(sessions[0].id)
    assert (await ann.rest.session(sessions[0].id)).state == "completed"
    await ann.rest.delete_session(sessions[1].id)
    with pytest.raises(NotFound):
        await ann.rest.session(sessions[1].id)
    with pytest.raises(NotFound):
        await ann.rest.session("../agents?x=/")


async def test_the_trust_summary_tells_what_an_answer_rests_on(ann: Chat) -> None:
    exchange = ann.ask("what is 12*34?")
    await exchange.answer()
    summary = await ann.rest.trust(exchange.exchange_id or "")
    assert [(tool.name, tool.outcome) for tool in summary.tools] == [("calculate", "ok")]


async def test_a_reader_that_is_too_slow_reads_the_whole_answer_once(
    ann: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_WAITING_AT_MOST", 4)
    pace = paced_agent.begin()
    slow, quick = ann.ask(paced_agent.ASK, agent_id="paced"), ann.ask("hi", agent_id="echo")
    await until(slow, Started)
    for _ in range(8):
        pace.write(5)
        await asyncio.sleep(0.1)
    assert await quick.answer() == "echo: hi"
    reading = asyncio.create_task(_told(slow))
    await asyncio.sleep(0.3)
    pace.finish()
    told, beginnings = await reading
    assert told == slow.text == WHOLE
    assert beginnings >= 1


async def _told(exchange: Exchange) -> tuple[str, int]:
    """The text that the deltas tell since the last `started`, and how often it began."""
    told, beginnings = "", 0
    async for event in exchange:
        if isinstance(event, Started):
            told, beginnings = "", beginnings + 1
        told += event.text if isinstance(event, Delta) else ""
    return told, beginnings


async def test_many_pages_of_sessions_are_one_list(ann: Chat) -> None:
    opened = {(await ann.rest.open_session("echo")).id for _ in range(60)}
    assert {session.id async for session in ann.rest.sessions()} == opened


async def test_after_its_block_the_client_is_closed_for_those_who_still_use_it(server: RunningServer) -> None:
    paced_agent.begin()
    async with connect(server.address) as client:
        exchange = client.ask(paced_agent.ASK, agent_id="paced")
        await until(exchange, Started)
        reading = asyncio.create_task(exchange.answer())
        await asyncio.sleep(0)
    with pytest.raises(Closed):
        await reading
    with pytest.raises(Closed):
        client.ask("hi")
    with pytest.raises(Closed):
        await client.stop(session_id="any")


async def test_a_cancelled_reader_leaves_the_exchange_and_the_client_as_they_are(ann: Chat) -> None:
    pace = paced_agent.begin()
    tasks = len(asyncio.all_tasks())
    exchange = ann.ask(paced_agent.ASK, agent_id="paced")
    reading = asyncio.create_task(exchange.answer())
    await asyncio.sleep(0.05)
    reading.cancel()
    await asyncio.wait({reading})
    pace.finish()
    assert await exchange.answer() == WHOLE
    given_up = ann.ask("hi", agent_id="echo")
    async for _ in given_up:
        break
    given_up.close()
    assert [event async for event in given_up if not isinstance(event, Stream | Delta | Final | SessionChanged)] == []
    assert await ann.ask_text("hi", agent_id="echo") == "echo: hi"
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.01)


async def test_another_kind_of_client_sees_what_this_one_does(server: RunningServer, ann: Chat) -> None:
    exchange = ann.ask("hi", agent_id="echo")
    await exchange.answer()
    async with chat(server.address, token="dev:ann") as other:
        await other.send({"type": "follow", "exchange_id": exchange.exchange_id, "after_seq": 0})
        final = await other.ended()
    assert exchange.final is not None
    assert [message.model_dump(mode="json") for message in exchange.messages] == final["messages"]


async def test_an_address_that_is_none_is_a_mistake_of_the_caller() -> None:
    for address in ("127.0.0.1:8000", "ws://127.0.0.1", "http://", "http://host?x=1"):
        with pytest.raises(ValueError, match="expected a URL"):
            async with connect(address):
                pass
