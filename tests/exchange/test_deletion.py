"""An exchange whose session is deleted elsewhere while it runs: its readers see it end, and no error is logged."""

import logging
from pathlib import Path

import pytest
from support.held_agents import Hold, held_graph
from support.sessions import events_of, open_sessions, until


@pytest.mark.parametrize("how", ["at its next write", "at its end"])
async def test_it_is_interrupted_without_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.INFO, "agentic_backend")
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        log = await sessions.begin("hello")
        await until(log, "delta")
        await sessions.store.real.delete_session(log.session_id or "")
        if how == "at its next write":
            hold.released.set()
        else:
            running = sessions.relay.running(log.exchange_id)
            assert running is not None
            running.interrupt()
        events = await events_of(log)
    error, final = events[-2:]
    assert (error["type"], error["code"], error["request_id"]) == ("error", "interrupted", "request")
    assert (final["status"], final["error"]["request_id"]) == ("interrupted", "request")
    assert final["session"]["id"] == log.session_id
    lines = [record for record in caplog.records if record.name.startswith("agentic_backend.exchange")]
    assert "exchange deleted with its session" in [record.getMessage() for record in lines]
    assert [record.getMessage() for record in lines if record.levelno >= logging.ERROR] == []
