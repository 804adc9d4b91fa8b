"""The client through lost connections, killed servers and lossy lines: nothing is lost, nothing comes twice."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support import approval_agents, fault_agents, paced_agent
from support.approval_agents import calls, runs
from support.fault_agents import words
from support.lossy_line import lossy_line
from support.running_server import RunningServer, running_server
from support.server_process import serving
from support.tcp_line import TcpLine, tcp_line

from agentic_backend.client import (
    AwaitingHuman,
    ChatError,
    Delta,
    Exchange,
    Final,
    NotFound,
    Reset,
    Started,
    Unanswered,
    Unreachable,
    answer,
    approve,
    connect,
)
from agentic_backend.client import line as client_line
from agentic_backend.offline.phrases import lorem
from agentic_backend.protocol.events import ExchangeEvent

WHOLE = lorem(paced_agent.WORDS)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    agents = [*approval_agents.ENTRIES, paced_agent.ENTRY]
    async with running_server(tmp_path, agents=agents) as server:
        yield server


@pytest.fixture
async def line(server: RunningServer) -> AsyncIterator[TcpLine]:
    async with tcp_line() as line:
        line.target = port_of(server.address)
        yield line


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def read_words(exchange: Exchange, count: int) -> None:
    while len(exchange.text.split()) < count:
        await anext(exchange)


async def checked_to_the_end(exchange: Exchange) -> str:
    """The text of the answer as its events told it since the last beginning; no seq comes twice."""
    told, seq = "", 0
    async for event in exchange:
        assert isinstance(event, ExchangeEvent)
        if isinstance(event, Started | Reset):
            told, seq = "".join(open.text for open in getattr(event, "partial", ())), 0
        assert event.seq > seq
        seq = event.seq
        told += event.text if isinstance(event, Delta) else ""
    return told


async def test_a_lost_connection_loses_no_word_and_doubles_none(line: TcpLine) -> None:
    pace = paced_agent.begin()
    async with connect(line.address, token="dev:ann") as chat:
        exchange = chat.ask(paced_agent.ASK, agent_id="paced")
        told = ""
        for written in (10, 30, 60):
            pace.write(20)
            while len(told.split()) < written:
                event = await anext(exchange)
                assert not isinstance(event, Started) or not told, "it goes on from its place"
                told += event.text if isinstance(event, Delta) else ""
            await line.cut()
        pace.finish()
        told += await checked_to_the_end(exchange)
        assert told == exchange.text == WHOLE


async def test_an_ask_while_there_is_no_connection_is_made_once_there_is_one(line: TcpLine) -> None:
    async with connect(line.address, token="dev:ann") as chat:
        await line.hold()
        exchange = chat.ask("repeat after me: still here")
        reading = asyncio.create_task(exchange.answer())
        await asyncio.sleep(0.5)
        line.release()
        assert await reading == "still here"
        assert len([session async for session in chat.rest.sessions()]) == 1


async def test_a_connection_that_carries_nothing_any_more_is_given_up(
    line: TcpLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_line, "_PING_AFTER_S", 0.3)
    monkeypatch.setattr(client_line, "_ANSWER_TIMEOUT_S", 0.5)
    pace = paced_agent.begin()
    async with connect(line.address, token="dev:ann") as chat:
        exchange = chat.ask(paced_agent.ASK, agent_id="paced")
        pace.write(5)
        await read_words(exchange, 4)
        line.swallow()
        pace.finish()
        assert await exchange.answer() == WHOLE


async def test_a_query_whose_connection_is_lost_is_shown_as_stopped(line: TcpLine) -> None:
    pace = paced_agent.begin()
    async with connect(line.address, token="dev:ann") as chat:
        exchange = chat.query(paced_agent.ASK, agent_id="paced")
        pace.write(5)
        await read_words(exchange, 2)
        await line.cut()
        with pytest.raises(Unanswered) as ended:
            await exchange.answer()
        assert ended.value.final.status == "stopped"


async def test_a_session_is_followed_on_after_a_lost_connection(line: TcpLine) -> None:
    pace = paced_agent.begin()
    async with connect(line.address, token="dev:ann") as chat:
        session = await chat.rest.open_session("paced")
        feed = chat.follow(session.id)
        chat.ask(paced_agent.ASK, session_id=session.id)
        pace.write(5)
        told = ""
        async for event in feed:
            told = "" if isinstance(event, Started) else told
            if isinstance(event, Delta):
                if not told:
                    await line.cut()
                    pace.finish()
                told += event.text
            if isinstance(event, Final):
                break
        assert told == WHOLE
        paced_agent.begin().finish()
        await chat.ask_text(paced_agent.ASK, session_id=session.id)
        while not isinstance(await anext(feed), Final):
            pass


async def test_a_session_whose_exchange_ended_meanwhile_shows_its_end(line: TcpLine) -> None:
    pace = paced_agent.begin()
    async with connect(line.address, token="dev:ann") as chat:
        session = await chat.rest.open_session("paced")
        feed = chat.follow(session.id)
        asked = chat.ask(paced_agent.ASK, session_id=session.id)
        pace.write(5)
        while not isinstance(await anext(feed), Delta):
            pass
        asked.close()
        await line.hold()
        pace.finish()
        await asyncio.sleep(0.5)
        line.release()
        while not isinstance(event := await anext(feed), Final):
            pass
        assert event.status == "ok"


async def test_a_decision_whose_connection_is_lost_is_taken_once(
    line: TcpLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "tools"
    monkeypatch.setenv(approval_agents.NOTES_VARIABLE, str(notes))
    async with connect(line.address, token="dev:ann") as chat:
        for number in range(5):
            exchange = chat.ask(calls(("send_email", {"to": str(number)})), agent_id="approving")
            asked = await anext(exchange)
            while not isinstance(asked, AwaitingHuman):
                asked = await anext(exchange)
            deciding = asyncio.create_task(chat.decide(asked, approve(asked.payload.requests[0])))
            # Sooner or later than the server has it.
            await asyncio.sleep(0.004 * number)
            await line.cut()
            await deciding
            await exchange.answer()
    assert [to["to"] for _, to in runs(notes)] == ["0", "1", "2", "3", "4"]


async def test_a_decision_that_was_never_sent_is_not_taken_for_one_that_was(line: TcpLine) -> None:
    async with connect(line.address, token="dev:ann") as chat:
        exchange = chat.ask("go", agent_id="choosing")
        asked = await anext(exchange)
        while not isinstance(asked, AwaitingHuman):
            asked = await anext(exchange)
        choice = answer(asked.payload.requests[0], "l")
        await chat.decide(asked, choice)
        await exchange.answer()
        await line.hold()
        await asyncio.sleep(0.1)
        deciding = asyncio.create_task(chat.decide(asked, choice))
        await asyncio.sleep(0.1)
        line.release()
        with pytest.raises(NotFound):
            await deciding


async def test_a_connection_that_was_quiet_for_longer_than_the_clients_patience_comes_back(line: TcpLine) -> None:
    pace = paced_agent.begin()
    async with connect(line.address, token="dev:ann", patience_s=1.5) as chat:
        exchange = chat.ask(paced_agent.ASK, agent_id="paced")
        pace.write(2)
        await read_words(exchange, 1)
        await asyncio.sleep(2)
        await line.cut()
        pace.finish()
        assert await exchange.answer() == WHOLE


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_lossy_line_loses_no_answer_and_starts_none_twice(
    server: RunningServer, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_line, "_RECONNECT_S", (0.01, 0.1))
    async with lossy_line(seed, late_s=0.001) as line:
        line.target = port_of(server.address)
        async with connect(line.address, token="dev:ann") as chat:
            line.share = 0.15
            texts = [f"repeat after me: number {number} " + "of many words" * 5 for number in range(12)]
            exchanges = [chat.ask(text) for text in texts]
            told = await asyncio.gather(*(checked_to_the_end(exchange) for exchange in exchanges))
            line.share = 0.0
            for text, exchange, shown in zip(texts, exchanges, told, strict=True):
                assert exchange.text == text.removeprefix("repeat after me: ").strip()
                assert shown in (exchange.text, ""), "all of it, or only the final"
            assert len([session async for session in chat.rest.sessions()]) == len(texts)
        assert line.lost_requests + line.lost_answers > 0


async def test_a_killed_server_loses_nothing_that_it_has_stored(tmp_path: Path) -> None:
    fault_agents.write_catalog(tmp_path)
    async with tcp_line() as line, AsyncExitStack() as servers:
        server = await servers.enter_async_context(serving("--data", "data", cwd=tmp_path))
        line.target = port_of(server.address)
        async with connect(line.address, token="dev:ann") as chat:
            asked = [chat.ask(script) for script in ("note a | words 400 100", "words 500 100")]
            for exchange in asked:
                # What has been written for so long is stored.
                await read_words(exchange, 200)
            assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
            unheard = chat.ask("words 5 0")
            again = await servers.enter_async_context(serving("--data", "data", cwd=tmp_path))
            line.target = port_of(again.address)
            for exchange in asked:
                with pytest.raises(Unanswered) as ended:
                    await exchange.answer()
                assert ended.value.final.status == "interrupted"
                assert exchange.text and words(500).startswith(exchange.text)
            assert await unheard.answer() == words(5)
            interrupted = asked[0].exchange_id
            assert interrupted is not None
            resumed = await chat.resume(interrupted)
            assert await resumed.answer() == words(400)
            sessions = [session async for session in chat.rest.sessions()]
            assert len(sessions) == 3


async def test_a_server_that_says_goodbye_is_replaced_without_a_gap(tmp_path: Path) -> None:
    fault_agents.write_catalog(tmp_path)
    async with tcp_line() as line, AsyncExitStack() as servers:
        server = await servers.enter_async_context(serving("--data", "data", cwd=tmp_path))
        line.target = port_of(server.address)
        async with connect(line.address, token="dev:ann") as chat:
            exchange = chat.ask("words 100 100")
            await read_words(exchange, 30)
            stopping = asyncio.create_task(server.stop())
            assert await exchange.answer() == words(100)
            assert await stopping == 0
            second = chat.ask("words 7 0")
            again = await servers.enter_async_context(serving("--data", "data", cwd=tmp_path))
            line.target = port_of(again.address)
            assert await second.answer() == words(7)


async def test_an_ask_whose_answer_ended_unseen_shows_it(line: TcpLine, server: RunningServer) -> None:
    async with connect(server.address, token="dev:ann") as other:
        await other.ask_text("repeat after me: once", client_exchange_id="x1")
    async with connect(line.address, token="dev:ann") as chat:
        await line.hold()
        exchange = chat.ask("repeat after me: once", client_exchange_id="x1")
        line.release()
        assert await exchange.answer() == "once"


async def test_a_server_that_never_comes_back_ends_all_that_waits(line: TcpLine) -> None:
    pace = paced_agent.begin()
    async with connect(line.address, token="dev:ann", patience_s=1) as chat:
        exchange = chat.ask(paced_agent.ASK, agent_id="paced")
        pace.write(5)
        await read_words(exchange, 3)
        feed = chat.follow(exchange.session_id or "")
        await line.hold()
        for waiting in (exchange.answer(), _end_of(feed), chat.stop(session_id=exchange.session_id)):
            with pytest.raises(Unreachable):
                await waiting
        with pytest.raises(ChatError):
            chat.ask("hi")
    pace.finish()


async def _end_of(feed: object) -> None:
    async for _ in feed:  # type: ignore[attr-defined]
        pass


async def test_where_nobody_listens_connecting_fails_after_the_clients_patience() -> None:
    async with tcp_line() as line:
        address = line.address
    with pytest.raises(Unreachable):
        async with connect(address, patience_s=0.5):
            pass
