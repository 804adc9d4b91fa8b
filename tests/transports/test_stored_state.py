"""What somebody has written to the database is read without running code, over a socket and on each store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from graphs.deciding import answer, waiting
from support.chat_client import Event, chat, final_text
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from transports.stored_graphs import Named

from agentic_backend.agents.state.state_serializer import StateSerializer

AGENT = [{"id": "stored", "class_path": "transports.stored_graphs:graph"}]
UNNAMED = "transports.stored_graphs.Unnamed"


def serving(directory: Path, store_url: str, **agents: Any) -> Any:
    return running_server(directory, agents=AGENT, settings={"store": {"url": store_url}, "agents": agents})


@pytest.fixture
def forging(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """While it lasts, what is stored of the type Named runs a command when LangGraph's own serializer reads it."""
    dumps = StateSerializer.dumps_typed
    command = ormsgpack.packb(("os", "system", f"touch {tmp_path / 'made'}"))

    def forged(serde: StateSerializer, value: Any) -> tuple[str, bytes]:
        return (
            ("msgpack", ormsgpack.packb(ormsgpack.Ext(0, command))) if isinstance(value, Named) else dumps(serde, value)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateSerializer, "dumps_typed", forged)
        yield patch


async def asked(server: RunningServer, message: str, session_id: str | None = None) -> Event:
    async with chat(server.address) as client:
        fields = {"agent_id": "stored"} if session_id is None else {"session_id": session_id}
        return (await client.ask(message, **fields))[-1]


async def test_a_forged_state_ends_the_exchange_names_the_type_and_runs_nothing(
    store_url: str, tmp_path: Path, forging: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, store_url) as server:
        session_id = (await asked(server, "hello"))["session_id"]
    forging.undo()
    async with serving(tmp_path, store_url) as server:
        for _ in range(2):
            final = await asked(server, "hello", session_id)
            assert (final["status"], final["error"]["code"]) == ("error", "state_refused")
            assert "'os.system'" in final["error"]["content"]
        async with rest(server) as http:
            assert (await http.get("/me/export")).status_code == 200
            assert (await http.delete(f"/sessions/{session_id}/state")).is_success
        assert final_text([await asked(server, "hello", session_id)]) == "1 None"
    assert not (tmp_path / "made").exists()


async def test_a_forged_checkpoint_ends_the_exchange_names_the_type_and_runs_nothing(
    store_url: str, tmp_path: Path, forging: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, store_url) as server, chat(server.address) as client:
        event = await waiting(client, "stored", "wait")
    forging.undo()
    async with serving(tmp_path, store_url) as server, chat(server.address) as client:
        error = await answer(client, event, "yes")
        assert (error["type"], error["code"]) == ("error", "state_refused") and "'os.system'" in error["content"]
        assert (await client.until("final"))["error"]["code"] == "state_refused"
        assert final_text([await asked(server, "hello", event["session_id"])]) == "1 None"
    assert not (tmp_path / "made").exists()


async def test_what_the_state_names_goes_on_after_a_restart(store_url: str, tmp_path: Path) -> None:
    async with serving(tmp_path, store_url) as server, chat(server.address) as client:
        session_id = (await asked(server, "hello"))["session_id"]
        await client.send({"message": "wait", "session_id": session_id})
        event = await client.until("awaiting_human")
    async with serving(tmp_path, store_url) as server, chat(server.address) as client:
        assert final_text([await answer(client, event, "yes")]) == "2 None yes"
        assert final_text([await asked(server, "hello", session_id)]) == "3 None"


async def test_a_type_that_nothing_names_is_told_when_it_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store_url = f"sqlite:{tmp_path / 'chat.sqlite3'}"
    async with serving(tmp_path, store_url) as server, chat(server.address) as client:
        event = await waiting(client, "stored", "wait unnamed")
        assert (event["type"], event["code"]) == ("error", "state_refused")
        assert f"'{UNNAMED}'" in event["content"] and "agents.state_types" in event["content"]
        session_id = (await asked(server, "unnamed"))["session_id"]
    told = {(one.channel, one.form) for one in caplog.records if one.message == "graph channel not serializable"}
    assert [channel for channel, form in told if f"'{UNNAMED}'" in form] == ["anything"] and len(told) == 1
    assert "private words" not in caplog.text
    async with serving(tmp_path, store_url, state_types=[UNNAMED]) as server:
        assert final_text([await asked(server, "hello", session_id)]) == "2 None"
        await asked(server, "unnamed", session_id)
    async with serving(tmp_path, store_url, state_types=[UNNAMED]) as server:
        assert final_text([await asked(server, "hello", session_id)]) == "4 Unnamed(words='private words')"
    # Without the setting nothing of it is lost.
    async with serving(tmp_path, store_url) as server:
        final = await asked(server, "hello", session_id)
        assert final["error"]["code"] == "state_refused" and f"'{UNNAMED}'" in final["error"]["content"]
    async with serving(tmp_path, store_url, state_types=[UNNAMED]) as server:
        assert final_text([await asked(server, "hello", session_id)]) == "5 Unnamed(words='private words')"
