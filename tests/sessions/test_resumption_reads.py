"""What a resumption reads of the exchange that it continues."""

from pathlib import Path
from typing import Any

import pytest
from support.held_agents import Hold, held_tool_graph
from support.recorded_agents import eventually
from support.sessions import USER, events_of, open_sessions

from agentic_backend.protocol.messages import Channel


async def test_of_a_long_exchange_only_a_few_messages_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold, bounds = Hold(), []
    agents = {"working": held_tool_graph(hold)}
    async with open_sessions(tmp_path, agents) as dying:
        log = await dying.begin("call work()")
        await eventually(lambda: Channel.TOOL_CALL in [message.channel for message in log.messages] and hold.held)
        async with open_sessions(tmp_path, agents) as sessions:
            read = sessions.store.real.exchange_messages

            async def noted(exchange_id: str, max_bytes: int | None = None) -> Any:
                bounds.append(max_bytes)
                return await read(exchange_id, max_bytes)

            with monkeypatch.context() as watched:
                watched.setattr(sessions.store.real, "exchange_messages", noted)
                resumed = await sessions.orchestrator.resume(USER, log.exchange_id, None, "resuming")
            assert bounds == [1]
            hold.released.set()
            events = await events_of(resumed)
            assert events[-1]["status"] == "ok"
            assert events[1]["message"]["parts"] == [{"type": "text", "text": "call work()"}]
