"""Who said what, in which order, and for how many tokens."""

from pathlib import Path

import pytest
from graphs import counted as served
from graphs.counted import CHOIRS
from graphs.talk import ask, moves, told
from support.providers.model_server import model_server
from support.providers.reply import USAGE
from support.running_server import RunningServer, running_server

AGENTS = served.AGENTS


@pytest.mark.parametrize(
    ("agent_id", "usage"),
    [
        ("counted", {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}),
        ("uncounted", None),
        ("counted-as-nothing", None),
    ],
)
async def test_an_agent_has_its_name_and_its_tokens_only_where_they_are_known(
    server: RunningServer, agent_id: str, usage: dict[str, int] | None
) -> None:
    events = await ask(server.address, "hello", agent_id=agent_id)
    final = events[-1]["messages"][-1]
    assert final["metadata"]["extras"]["agent"] == "ada"
    assert final["metadata"].get("token_usage") == usage
    assert "token_usage" in final["metadata"] or usage is None, "unknown is absent"
    assert events[-1]["usage"] == (usage or {})


@pytest.mark.parametrize(("options", "asked"), [({}, {"include_usage": True}), ({"stream_usage": False}, None)])
async def test_a_provider_at_another_base_url_is_asked_for_the_usage(
    tmp_path: Path, options: dict[str, bool], asked: dict[str, bool] | None
) -> None:
    async with model_server() as provider:
        model = {
            "model": "openai:some-model",
            "options": {"base_url": f"{provider.url}/v1", "api_key": "sk-of-the-tests", **options},
        }
        async with running_server(tmp_path, settings={"models": {"default": model}}) as server:
            events = await ask(server.address, "hello")
        [request] = provider.asked
    assert request.body.get("stream_options") == asked
    # The tests' provider counts in any case.
    assert events[-1]["usage"] == USAGE


@pytest.mark.parametrize("agent_id", CHOIRS)
async def test_texts_that_are_written_at_the_same_time_are_stored_as_they_were_shown(
    server: RunningServer, agent_id: str
) -> None:
    events = await ask(server.address, "sing", agent_id=agent_id)
    blocks = list(dict.fromkeys(event["block"] for event in events if event["type"] == "delta"))
    stored = [event["block"] for event in events if event["type"] == "stream" and "block" in event]
    assert stored == blocks == [0, 1, 2]
    assert told(events) == [
        ("observation", "voice 0 ends"),
        ("observation", "voice 1 ends"),
        ("final", "voice 2 ends"),
    ]


async def test_an_expert_that_fails_hands_back(server: RunningServer) -> None:
    events = await ask(server.address, "where?", agent_id="chief")
    assert moves(events, "handoff") == [("chief", "scout"), ("scout", "chief")]
    assert told(events) == [
        ("tool_call", "ask_scout"),
        ("tool_result", "The agent 'scout' failed."),
        ("final", "Nobody knows."),
    ]
    assert "secret" not in str(events)
