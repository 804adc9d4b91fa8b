"""The client at a real server: asks, streams, tools, stops, queries, refusals."""

import asyncio

import pytest
from support import paced_agent
from support.client_exchanges import WHOLE, until
from support.running_server import RunningServer

from agentic_backend.client import (
    Chat,
    Closed,
    Delta,
    Exchange,
    Final,
    NotFound,
    SessionChanged,
    Started,
    Stream,
    TryLater,
    Unanswered,
    connect,
    places,
)
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart


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


async def test_an_address_that_is_none_is_a_mistake_of_the_caller() -> None:
    for address in ("127.0.0.1:8000", "ws://127.0.0.1", "http://", "http://host?x=1"):
        with pytest.raises(ValueError, match="expected a URL"):
            async with connect(address):
                pass


async def test_what_is_not_of_json_is_refused_and_nothing_else_suffers(ann: Chat) -> None:
    for unfit in (object(), "\ud800"):
        with pytest.raises(ValueError):
            ann.ask("hello", agent_id="echo", runtime_context={"x": unfit})
        assert await ann.ask_text("hi", agent_id="echo") == "echo: hi"
