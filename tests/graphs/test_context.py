"""A graph's `context_schema` is filled, and the RuntimeContext can be reached beside it."""

from pathlib import Path
from typing import Any

import pytest
from graphs.talk import ask, told
from support.chat_client import chat, check_exchange, final_text
from support.rest_client import rest
from support.running_server import RunningServer, running_server

from agentic_backend.agents.agent_manager import AgentManager


def entry(name: str, agent_id: str = "", **fields: Any) -> dict[str, Any]:
    return {"id": agent_id or name, "class_path": f"graphs.contexts:{name}", "tuning": {"fields": fields}}


AGENTS = [
    *map(entry, ("data_class", "typed", "optional", "model", "made", "with_run", "extended", "tools")),
    *map(entry, ("asking", "thread", "nested")),
    entry("data_class", "fixed", language="fr", top="7", user_id="nobody", elsewhere="ignored"),
    entry("model", "fixed-model", language="fr", nested={"a": "1"}),
    entry("data_class", "broken", top="many"),
    entry("made", "broken-made", top="many"),
    entry("Prompted", "prompted", language="en"),
    entry("data_class", "teller", tone="loud"),
    *map(entry, ("camel", "pair", "checked", "nested_alias")),
    entry("pair", "fixed-pair", a=5),
    entry("with_agent", "member"),
    entry("ChiefOfTwo", "chief-of-two") | {"type": "leader", "crew": ["member"]},
    entry("Chief", "chief") | {"type": "leader", "crew": ["teller"]},
    entry("configured", "told", greeting="hello", user_id="nobody", checkpoint_id="none", thread_id="none"),
    entry("ChiefOfConfigured", "asks-told", greeting="hi", top=1) | {"type": "leader", "crew": ["told"]},
]


async def answer(server: RunningServer, agent_id: str, **fields: Any) -> str:
    return final_text(await ask(server.address, "go", agent_id=agent_id, **fields))


@pytest.mark.parametrize(
    "agent_id, expected",
    [
        ("data_class", "Settings {'language': 'de', 'top': 3, 'tone': 'plain', 'user_id': 'developer', 'unknown': []}"),
        ("made", "Settings {'language': 'de', 'top': 3, 'tone': 'plain', 'user_id': 'developer', 'unknown': []}"),
        ("typed", "_Filled {'language': 'de', 'top': 3}"),
        ("model", "Model {'language': 'de', 'top': 3, 'nested': {}}"),
    ],
)
@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_the_schema_is_filled_with_what_the_client_tells(
    server: RunningServer, agent_id: str, expected: str, mode: str
) -> None:
    given = {"language": "de", "top": "3", "page": "/start"}
    assert await answer(server, agent_id, runtime_context=given, mode=mode) == expected


async def test_a_field_of_the_catalog_can_not_be_replaced_by_a_client(server: RunningServer) -> None:
    given = {"language": "de", "top": 1, "tone": "rude", "user_id": "somebody else", "nested": {"a": 2}}
    filled = "Settings {'language': 'fr', 'top': 7, 'tone': 'rude', 'user_id': 'developer', 'unknown': []}"
    assert await answer(server, "fixed", runtime_context=given) == filled
    assert await answer(server, "fixed-model", runtime_context=given) == (
        "Model {'language': 'fr', 'top': 1, 'nested': {'a': 1}}"
    )


@pytest.mark.parametrize("given", [{}, {"userId": "victim"}, {"user_id": "victim"}])
async def test_no_alias_lets_a_client_claim_to_be_somebody_else(server: RunningServer, given: dict[str, Any]) -> None:
    filled = "Camel {'user_id': 'developer', 'page_name': 'start'}"
    assert await answer(server, "camel", runtime_context={**given, "pageName": "start"}) == filled


async def test_a_rule_over_several_fields_blames_the_client_only_for_its_own_values(server: RunningServer) -> None:
    async with chat(server.address) as client:
        [alone] = await client.ask("go", agent_id="fixed-pair")
        [told] = await client.ask("go", agent_id="pair", runtime_context={"a": 5})
    assert (alone["code"], alone["content"]) == ("agent_unavailable", "The agent's context does not fit its schema.")
    assert (told["code"], told["content"]) == ("bad_frame", "runtime_context: Value error, a is above b")


async def test_a_class_that_refuses_what_a_client_gives_refuses_the_ask_and_nobody_reads_the_value(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with chat(server.address) as client:
        [refused] = await client.ask("go", agent_id="checked", runtime_context={"language": "Zorblaxian"})
    assert refused["code"] == "bad_frame" and refused["content"].startswith("runtime_context: ")
    assert "secret" not in refused["content"] and "Zorblaxian" not in caplog.text


async def test_a_field_that_is_only_within_another_value_is_refused_at_the_start(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        [refused] = await client.ask("go", agent_id="nested_alias")
    assert refused["code"] == "agent_unavailable"
    problems = AgentManager.load(tmp_path / "agents_catalog.yaml", ["default"]).problems
    assert any("AliasPath" in problem.message and "'language'" in problem.message for problem in problems)


async def test_the_agent_that_an_expert_reads_in_its_context_is_itself(server: RunningServer) -> None:
    events = await ask(server.address, "go", agent_id="chief-of-two")
    assert ("tool_result", "WithAgent {'agent_id': 'member'}") in told(events)


async def test_a_context_without_any_value_is_still_a_context(server: RunningServer) -> None:
    assert await answer(server, "optional") == "_Filled {}"


@pytest.mark.parametrize(
    "agent_id, given, content",
    [
        ("data_class", {}, "runtime_context.language: "),
        ("typed", {}, "runtime_context.language: "),
        ("model", {}, "runtime_context.language: "),
        ("data_class", {"language": "de", "top": "three"}, "runtime_context.top: "),
        ("typed", {"language": ["de"]}, "runtime_context.language: "),
        ("model", {"language": "d"}, "runtime_context.language: "),
        ("model", {"language": "xx"}, "runtime_context.language: Value error, no such language"),
    ],
)
@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_a_field_that_is_missing_or_wrong_refuses_the_ask(
    server: RunningServer, agent_id: str, given: dict[str, Any], content: str, mode: str
) -> None:
    async with chat(server.address) as client, rest(server) as http:
        [refused] = await client.ask("go", agent_id=agent_id, runtime_context=given, mode=mode)
        assert (refused["code"], refused["refused"]) == ("bad_frame", "ask")
        assert refused["content"].startswith(content)
        assert (await http.get("/sessions")).json()["sessions"] == [], "nothing is stored"


@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_where_the_graph_is_not_known_before_it_is_built_the_exchange_ends_with_the_error(
    server: RunningServer, mode: str
) -> None:
    async with chat(server.address) as client:
        events = await client.ask("go", agent_id="made", mode=mode)
    check_exchange(events)
    assert events[-1]["error"]["code"] == "bad_frame"
    assert events[-1]["error"]["content"].startswith("runtime_context.language: ")


async def test_a_wrong_field_of_the_catalog_is_found_whatever_a_client_says(server: RunningServer) -> None:
    async with chat(server.address) as client:
        [refused] = await client.ask("go", agent_id="broken", runtime_context={"language": "de", "top": 1})
        events = await client.ask("go", agent_id="broken-made", runtime_context={"language": "de", "top": 1})
    assert refused["code"] == "agent_unavailable"
    error = events[-1]["error"]
    assert error["code"] == "agent_unavailable" and error["content"].endswith("a wrong tuning field 'top'.")


async def test_the_runtime_context_is_reached_in_nodes_tools_and_threads(server: RunningServer) -> None:
    assert await answer(server, "with_run") == "developer True"
    assert await answer(server, "extended", runtime_context={"language": "de", "run_id": "x", "user_id": "x"}) == (
        "developer de True"
    )
    events = await ask(server.address, "go", agent_id="tools", runtime_context={"language": "de"})
    assert [text for channel, text in told(events) if channel == "tool_result"] == ["developer de"] * 2


async def test_the_prompt_of_a_run_reaches_a_graph_with_a_context_of_its_own(server: RunningServer) -> None:
    assert await answer(server, "prompted") == "You are a cheerful parrot."


async def test_a_run_that_goes_on_has_the_same_context(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        await client.send({"message": "go", "agent_id": "asking", "runtime_context": {"language": "de", "top": "3"}})
        waiting = await client.until("awaiting_human")
    [request] = waiting["payload"]["requests"]
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        place = {name: waiting[name] for name in ("session_id", "exchange_id")}
        await client.send({"type": "human_resume", **place, "payload": {"answers": {request["interrupt_id"]: "yes"}}})
        assert final_text([await client.until("final")]) == "yes de 3"


async def test_an_expert_gets_a_context_of_its_own_schema(server: RunningServer) -> None:
    events = await ask(server.address, "go", agent_id="chief", runtime_context={"language": "de"})
    filled = "Settings {'language': 'de', 'top': 1, 'tone': 'loud', 'user_id': 'developer', 'unknown': []}"
    assert ("tool_result", filled) in told(events)


async def test_an_expert_without_what_it_needs_fails_as_a_tool(server: RunningServer) -> None:
    events = await ask(server.address, "go", agent_id="chief")
    [result] = [text for channel, text in told(events) if channel == "tool_result"]
    assert result.startswith("runtime_context.language: ")


async def test_a_subgraph_gets_the_context_of_its_parent(server: RunningServer) -> None:
    given = {"language": "de"}
    assert (await answer(server, "nested", runtime_context=given)).startswith("Settings {'language': 'de'")


async def test_the_thread_is_the_session_and_the_keys_of_calls_are_of_the_exchange(server: RunningServer) -> None:
    first = await ask(server.address, "go", agent_id="thread")
    session_id = first[0]["session_id"]
    second = await ask(server.address, "go", session_id=session_id)
    query = await ask(server.address, "go", agent_id="thread", mode="query")
    (one, who, key), (two, _, other), (three, _, _) = (final_text(each).split() for each in (first, second, query))
    assert (one, two, three) == (session_id, session_id, query[0]["exchange_id"])
    assert who == "developer" and key != other


def configured(thread_id: str) -> str:
    ids = {"thread_id": thread_id, "user_id": "developer", "assistant_id": "told", "graph_id": "told"}
    told = {"greeting": "hello", **ids, "langgraph_auth_user_id": "developer", "checkpoint_id": None}
    return f"{told} developer developer"


@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_a_node_finds_in_its_config_what_a_function_that_makes_a_graph_finds(
    server: RunningServer, mode: str
) -> None:
    events = await ask(server.address, "go", agent_id="told", mode=mode)
    assert final_text(events) == configured(events[0]["session_id" if mode == "chat" else "exchange_id"])


async def test_an_expert_finds_its_own_fields_and_id_in_its_config(server: RunningServer) -> None:
    events = await ask(server.address, "go", agent_id="asks-told")
    assert ("tool_result", configured(events[0]["session_id"])) in told(events)
