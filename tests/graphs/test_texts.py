"""What people see of messages that are more than text, or none at all."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from graphs import texts as served
from graphs.talk import activities, ask, told
from graphs.texts import HUGE, PNG, REFUSAL
from support.chat_client import Event, chat, check_exchange, final_text
from support.providers.model_server import model_server
from support.providers.reply import Reply
from support.running_server import RunningServer, running_server

AGENTS = served.AGENTS


def final_of(events: list[Event]) -> dict[str, Any]:
    final: dict[str, Any] = events[-1]["messages"][-1]
    assert final["channel"] == "final"
    return final


@pytest.mark.parametrize("agent_id", ["silent", "echoing", "empty-model"])
async def test_a_graph_that_says_nothing_of_its_own_says_so_and_never_repeats_the_person(
    server: RunningServer, agent_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        events = await ask(server.address, "Zorblax", agent_id=agent_id)
    final = final_of(events)
    assert final_text(events) == ""
    assert final["metadata"]["finish_reason"] == "other"
    [warning] = [record for record in caplog.records if "without a text" in record.message]
    assert vars(warning)["nodes"] == ["say"]
    assert vars(warning)["agent_id"] == agent_id
    assert "Zorblax" not in str(vars(warning))
    again = await ask(server.address, "And now?", session_id=events[0]["session_id"])
    assert final_text(again) == ""


@pytest.mark.parametrize("agent_id", ["refusing", "refusing-whole"])
async def test_a_refusal_is_the_answer(server: RunningServer, agent_id: str) -> None:
    events = await ask(server.address, "help", agent_id=agent_id)
    assert final_text(events) == REFUSAL
    assert final_of(events)["metadata"]["finish_reason"] == "content_filter"


async def test_a_refusal_that_chat_completions_stream_is_the_answer(tmp_path: Path) -> None:
    async with model_server() as provider:
        provider.reply = lambda messages: Reply(declines="I can't help with that.")
        options = {"base_url": f"{provider.url}/v1", "api_key": "sk-of-the-tests"}
        settings = {"models": {"default": {"model": "openai:some-model", "options": options}}}
        async with running_server(tmp_path, settings=settings) as server:
            events = await ask(server.address, "help")
    assert final_text(events).strip() == "I can't help with that."
    assert final_of(events)["metadata"]["finish_reason"] == "content_filter"


@pytest.mark.parametrize("agent_id", ["drawing", "drawing-unreturned"])
async def test_a_generated_image_is_shown_beside_the_text(server: RunningServer, agent_id: str) -> None:
    events = await ask(server.address, "draw", agent_id=agent_id)
    assert final_of(events)["parts"] == [
        {"type": "text", "text": "Here it is."},
        {"type": "image_url", "url": f"data:image/png;base64,{PNG}"},
    ]


async def test_images_of_a_node_are_shown_within_bounds(server: RunningServer) -> None:
    parts = final_of(await ask(server.address, "draw", agent_id="drawing-whole"))["parts"]
    assert parts == [
        {
            "type": "text",
            "text": "Three pictures.\n\n[image/png of 1200004 bytes, left out because it is too large]",
        },
        {"type": "image_url", "url": f"data:image/png;base64,{PNG}"},
        {"type": "image_url", "url": "https://example.org/a.png"},
    ]


async def test_what_a_text_adds_for_an_image_that_cant_be_shown_is_streamed_too(server: RunningServer) -> None:
    # `ask` checks that the deltas are the text.
    events = await ask(server.address, "draw", agent_id="drawing-too-much")
    assert final_text(events) == "A poster.\n\n[image/png of 1200004 bytes, left out because it is too large]"


async def test_files_and_sound_are_linked_or_named(server: RunningServer) -> None:
    text, link = final_of(await ask(server.address, "read", agent_id="with-files"))["parts"]
    assert text["text"] == (
        "Listen and read.\n\n[audio/wav of 3 bytes, which can't be shown]\n\n"
        "[application/pdf of 3 bytes: report.pdf, which can't be shown]"
    )
    assert link == {
        "type": "link",
        "kind": "download",
        "href": "https://example.org/b.csv",
        "title": "b.csv",
        "file_name": "b.csv",
        "mime": "text/csv",
    }


A = {"number": 1, "title": "A", "url": "https://example.org/a"}


@pytest.mark.parametrize(
    ("agent_id", "sources"),
    [
        ("citing-openai", [A, {"number": 2, "title": "b.pdf"}]),
        ("citing-anthropic", [{**A, "cited_text": "so it is"}]),
        ("citing-unreturned", [{**A, "cited_text": "so it is"}]),
        ("citing-gemini", [{**A, "cited_text": "It"}]),
    ],
)
async def test_what_a_model_cites_is_in_the_sources_of_its_message(
    server: RunningServer, agent_id: str, sources: list[dict[str, Any]]
) -> None:
    events = await ask(server.address, "why?", agent_id=agent_id)
    assert final_text(events) == "It is so."
    assert final_of(events)["metadata"]["sources"] == sources


async def test_a_tool_that_the_provider_runs_is_named(server: RunningServer) -> None:
    events = await ask(server.address, "why?", agent_id="citing-openai")
    assert activities(events, "progress") == [{"tool": "web_search", "by": "provider"}]
    assert final_of(events)["metadata"]["extras"]["server_tools"] == ["web_search"]


WEATHER = {"city": "Zürich", "degrees": 7}


@pytest.mark.parametrize("agent_id", ["structured-by-tool", "structured-by-provider", "structured-within"])
async def test_a_structured_response_is_the_final_once_as_json(server: RunningServer, agent_id: str) -> None:
    events = await ask(server.address, "weather?", agent_id=agent_id)
    for asked in (events, await ask(server.address, "and now?", session_id=events[0]["session_id"])):
        [part] = final_of(asked)["parts"]
        assert (part["type"], part["language"]) == ("code", "json")
        assert json.loads(part["code"]) == WEATHER


async def test_a_structured_response_beside_a_text_follows_it(server: RunningServer) -> None:
    for agent_id, value in {
        "structured-dataclass": {"city": "Bern"},
        "structured-dict": {"city": "Bern", "parts": [1, None]},
    }.items():
        text, code = final_of(await ask(server.address, "where?", agent_id=agent_id))["parts"]
        assert text == {"type": "text", "text": "Found."}
        assert json.loads(code["code"]) == value


async def test_a_text_that_no_store_can_hold_is_cut_and_says_so(server: RunningServer) -> None:
    async with chat(server.address, max_size=None) as client:
        events = await client.ask("all of it", agent_id="huge")
    check_exchange(events)
    [(call, _), (result, content), (final, text)] = told(events)
    assert (call, result, final) == ("tool_call", "tool_result", "final")
    assert content.endswith(f"[cut: {HUGE - 1024**2} more characters left out]")
    assert text.endswith(f"[cut: {HUGE - 2 * 1024**2} more characters left out]")
