"""An end that can't be made or stored: the exchange ends typed and at once, and takes nothing along."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import check_exchange, text_of
from support.held_agents import Hold, held_graph, held_tool_graph
from support.hostile_modules import entry, specs
from support.outages import goes_on
from support.recorded_agents import echoing_graph, eventually, metric
from support.sessions import USER, Sessions, events_of, open_sessions

from agentic_backend.exchange.end import orphan_closing as closing
from agentic_backend.exchange.end import settlement
from agentic_backend.exchange.end.ending import ending_of

SAID, SECRET = "one two three", "quokkaberry"
# Nobody can wait for that.
LEASE_S = 3_600.0


def failing_once(works: Any, error: BaseException, *, is_async: bool = False) -> Any:
    """`works`, but its first call fails with `error`."""
    errors = [error]

    def call(*args: Any, **kwargs: Any) -> Any:
        if errors:
            raise errors.pop()
        return works(*args, **kwargs)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await call(*args, **kwargs)

    return awaited if is_async else call


async def said(sessions: Sessions, hold: Hold, message: str = "hello", **fields: Any) -> Any:
    """The log of an exchange whose agent has said something, and waits."""
    log = await sessions.begin(message, **fields)
    await eventually(lambda: hold.held)
    return log


async def check_end(sessions: Sessions, log: Any) -> None:
    events = await events_of(log)
    check_exchange(events)
    final = events[-1]
    assert (final["status"], final["error"]["code"]) == ("error", "internal")
    assert SAID in [text_of(message) for message in final["messages"]], "what people have seen"
    assert metric(sessions.kpi, "chat_running_exchanges") == 0


@pytest.mark.parametrize("error", [RuntimeError(SECRET), asyncio.CancelledError(SECRET)])
@pytest.mark.parametrize("dies", ["making", "storing"])
async def test_an_end_that_fails_is_typed_and_at_once(
    tmp_path: Path, dies: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold()
    agents = {"held": held_graph(hold), "echo": echoing_graph()}
    async with open_sessions(tmp_path, agents, lease_s=LEASE_S) as sessions:
        log = await said(sessions, hold)
        if dies == "making":
            monkeypatch.setattr(settlement, "ending_of", failing_once(ending_of, error))
        else:
            append = failing_once(sessions.store.real.append, error, is_async=True)
            monkeypatch.setattr(sessions.store.real, "append", append)
        hold.released.set()
        await check_end(sessions, log)
        assert (await events_of(log))[-1]["messages"] == await sessions.stored(log.session_id)
        await goes_on(sessions, log.session_id)


@pytest.mark.parametrize("dies", ["making", "storing"])
async def test_the_end_of_a_query_that_fails_is_typed_and_at_once(
    tmp_path: Path, dies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, lease_s=LEASE_S) as sessions:
        log = await said(sessions, hold, mode="query")
        if dies == "making":
            monkeypatch.setattr(settlement, "ending_of", failing_once(ending_of, RuntimeError(SECRET)))
        else:
            record_kpi = failing_once(sessions.store.real.record_kpi, RuntimeError(SECRET), is_async=True)
            monkeypatch.setattr(sessions.store.real, "record_kpi", record_kpi)
        hold.released.set()
        await check_end(sessions, log)


async def test_a_call_that_is_open_then_is_not_blamed_on_a_server_that_went_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"working": held_tool_graph(hold)}, lease_s=LEASE_S) as sessions:
        log = await said(sessions, hold, message="call work()")
        await eventually(lambda: log.messages[-1].channel == "tool_call")
        monkeypatch.setattr(settlement, "ending_of", failing_once(ending_of, RuntimeError(SECRET)))
        await sessions.orchestrator.stop(USER, None, log.exchange_id)
        events = await events_of(log)
        check_exchange(events)
        [result] = [message for message in events[-1]["messages"] if message["channel"] == "tool_result"]
        assert result["parts"][0]["content"] == "The exchange failed before it gave a result."
        hold.released.set()


@pytest.mark.parametrize("dies", ["_count", "answered", "failed"])
async def test_what_follows_the_end_leaves_nothing_behind(
    tmp_path: Path, dies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold()
    agents = {"held": held_graph(hold), "echo": echoing_graph()}
    async with open_sessions(tmp_path, agents, lease_s=LEASE_S) as sessions:
        log = await said(sessions, hold)
        real = getattr(settlement.Settlement, dies)
        monkeypatch.setattr(settlement.Settlement, dies, failing_once(real, RuntimeError(SECRET)))
        if dies == "failed":
            monkeypatch.setattr(settlement, "ending_of", failing_once(ending_of, RuntimeError(SECRET)))
        hold.released.set()
        final = (await events_of(log))[-1]
        assert final["status"] == ("error" if dies == "failed" else "ok")
        await eventually(lambda: metric(sessions.kpi, "chat_running_exchanges") == 0)
        await goes_on(sessions, log.session_id)


async def test_what_was_stored_before_it_failed_is_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, lease_s=LEASE_S) as sessions:
        log = await said(sessions, hold)
        real = sessions.store.real.append

        async def append(*args: Any, **kwargs: Any) -> Any:
            await real(*args, **kwargs)
            raise RuntimeError(SECRET)

        monkeypatch.setattr(sessions.store.real, "append", append)
        hold.released.set()
        final = (await events_of(log))[-1]
        assert (final["status"], final["messages"]) == ("ok", await sessions.stored(log.session_id))


async def test_texts_that_cannot_be_looked_at_when_a_server_has_gone_end_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else it would be closed again and again, and its session would stay busy for ever."""
    hold = Hold()
    agents = {"held": held_graph(hold), "echo": echoing_graph()}
    modules = specs(tmp_path, entry(settings={"after": "redact"}))
    async with open_sessions(tmp_path, agents, lease_s=LEASE_S, modules=modules) as sessions:
        log = await said(sessions, hold)
        monkeypatch.setattr(settlement, "ending_of", failing_once(ending_of, RuntimeError(SECRET)))
        monkeypatch.setattr(closing, "_passed", failing_once(closing._passed, RuntimeError(SECRET), is_async=True))
        hold.released.set()
        final = (await events_of(log))[-1]
        assert (final["status"], final["error"]["code"]) == ("error", "internal")
        assert SAID not in str(final), "nothing has looked at it"
        assert "exchange closed without its last texts" in caplog.text
        await goes_on(sessions, log.session_id)


async def test_one_exchange_that_cannot_be_ended_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hold = Hold()
    caplog.set_level(logging.WARNING)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=0.05) as sessions:
        logs = [await sessions.begin(f"hello {number}") for number in range(3)]
        await eventually(lambda: hold.held == 3)
        sessions.store.go_away()
        await sessions.relay.aclose()
        sessions.store.come_back()
    left = logs[0].exchange_id
    real = closing.OrphanClosing.close

    async def close(self: Any, record: Any, *args: Any) -> Any:
        if record.id == left:
            raise KeyError(SECRET)
        return await real(self, record, *args)

    monkeypatch.setattr(closing.OrphanClosing, "close", close)
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        for log in logs[1:]:
            assert (await sessions.stored_final(log.exchange_id)).status == "interrupted"
        told = [record for record in caplog.records if record.message == "overdue exchange not ended"]
        assert {vars(record)["exchange_id"] for record in told} == {left}
        monkeypatch.undo()
