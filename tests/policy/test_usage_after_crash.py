"""A server that is killed while models speak leaves a record of each call."""

import signal
from pathlib import Path

import pytest
import yaml
from support.chat_client import chat
from support.rest_client import rest
from support.server_process import serving

SLOW = {"AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 5}', "AGENTIC_TITLES__ENABLED": "false"}


@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_a_call_at_work_when_its_server_is_killed_is_recorded(tmp_path: Path, mode: str) -> None:
    async with serving(cwd=tmp_path, environment=SLOW) as server:
        async with chat(server.address, token="dev:ann") as client:
            begun = await client.running("count down slowly from 100", words=8, mode=mode)
        await server.stop(signal.SIGKILL)
    async with serving(cwd=tmp_path, environment=SLOW) as server, rest(server, "dev:ann") as http:
        named = {"exchange_id": begun["exchange_id"], "by": "model,purpose,agent_id,session_id"}
        body = (await http.get("/usage", params=named)).json()
    [call] = body["sums"]
    assert call["keys"]["purpose"] == "answer" and call["keys"]["agent_id"]
    assert call["keys"]["session_id"] == begun.get("session_id")
    assert (call["calls"], call["input_tokens"], call["output_tokens"], call["costs"]) == (1, 0, 0, [])


async def test_with_a_budget_it_costs_what_was_sent(tmp_path: Path) -> None:
    price = {"model": "*", "input_per_million": 1_000_000, "output_per_million": 0, "from": "2026-01-01"}
    settings = {"prices": [price], "budgets": {"users": {"ann": {"cost": 10}}}}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.yaml").write_text(yaml.safe_dump(settings))
    async with serving(cwd=tmp_path, environment=SLOW) as server:
        async with chat(server.address, token="dev:ann") as client:
            await client.running("count down slowly from 100", words=8, mode="query")
        await server.stop(signal.SIGKILL)
    async with serving(cwd=tmp_path, environment=SLOW) as server:
        async with chat(server.address, token="dev:ann") as client:
            await client.send({"message": "hello"})
            assert (await client.until("error"))["code"] == "budget_exceeded"
