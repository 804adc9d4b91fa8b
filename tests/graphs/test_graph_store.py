"""A graph that wants LangGraph's store gets one, which persists beside the sessions and is its user's own."""

from pathlib import Path
from typing import Any

import pytest
from graphs.remembering import compiled_in
from graphs.talk import ask, told
from support.chat_client import chat, check_exchange, final_text
from support.rest_client import rest
from support.running_server import RunningServer, running_server


def entry(name: str, agent_id: str = "", **more: Any) -> dict[str, Any]:
    return {"id": agent_id or name, "class_path": f"graphs.remembering:{name}", **more}


AGENTS = [
    *map(entry, ("in_loop", "in_thread", "careless", "own_loop", "with_own", "with_tool", "at_build")),
    entry("in_loop", "shared", store="shared"),
    entry("in_loop", "without", store="none"),
    entry("Chief", "chief", type="leader", crew=["shared"]),
    entry("Chief", "chief-of-own", type="leader", crew=["with_own"]),
]
FACTS = [
    (("put", ("facts", "a"), "one", {"n": 1, "tag": "x", "in": {"deep": [1, 2]}}), "nothing"),
    (("put", ("facts", "a", "b"), "two", {"n": 2.5, "tag": "y"}), "nothing"),
    (("put", ("factsheets",), "three", {"n": 3}), "nothing"),
]
READS = [
    (("get", ("facts", "a"), "one"), "facts.a/one={'n': 1, 'tag': 'x', 'in': {'deep': [1, 2]}}"),
    (("get", ("facts",), "one"), "nothing"),
    (
        ("search", ("facts",), {}),
        "facts.a.b/two={'n': 2.5, 'tag': 'y'}, facts.a/one={'n': 1, 'tag': 'x', 'in': {'deep': [1, 2]}}",
    ),
    (("search", ("facts",), {"limit": 1, "offset": 1}), "facts.a/one={'n': 1, 'tag': 'x', 'in': {'deep': [1, 2]}}"),
    (("search", (), {"filter": {"n": {"$gt": 2, "$ne": 3}}}), "facts.a.b/two={'n': 2.5, 'tag': 'y'}"),
    (
        ("search", (), {"filter": {"in": {"deep": [1, 2]}}, "query": "one"}),
        "facts.a/one={'n': 1, 'tag': 'x', 'in': {'deep': [1, 2]}}",
    ),
    (("search", (), {"filter": {"tag": {"$gte": "y"}}}), "facts.a.b/two={'n': 2.5, 'tag': 'y'}"),
    (("search", ("absent",), {}), "nothing"),
    (("list_namespaces", {}), "facts.a, facts.a.b, factsheets"),
    (("list_namespaces", {"prefix": ("facts", "*"), "max_depth": 2}), "facts.a"),
    (("list_namespaces", {"suffix": ("b",)}), "facts.a.b"),
    (("list_namespaces", {"limit": 1, "offset": 2}), "factsheets"),
]


async def answer(server: RunningServer, agent_id: str, *operation: Any, **fields: Any) -> str:
    return final_text(await ask(server.address, repr(operation), agent_id=agent_id, **fields))


@pytest.mark.parametrize("agent_id", ["in_loop", "in_thread"])
async def test_a_graph_keeps_items_from_session_to_session_and_over_a_restart(tmp_path: Path, agent_id: str) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        for operation, expected in [*FACTS, *READS]:
            assert await answer(server, agent_id, *operation) == expected, operation
    async with running_server(tmp_path, agents=AGENTS) as server:
        assert await answer(server, agent_id, *READS[0][0]) == READS[0][1]
        await answer(server, agent_id, "delete", ("facts", "a"), "one")
        assert await answer(server, agent_id, *READS[0][0]) == "nothing"


@pytest.mark.mongodb
async def test_items_are_kept_in_mongodb_too(tmp_path: Path, mongodb_url: str) -> None:
    async with running_server(tmp_path, agents=AGENTS, settings={"store": {"url": mongodb_url}}) as server:
        for operation, expected in [*FACTS, *READS]:
            assert await answer(server, "in_loop", *operation) == expected, operation


async def test_items_are_their_users_own_unless_the_entry_shares_them(tmp_path: Path) -> None:
    async def of(server: RunningServer, token: str, agent_id: str, *operation: Any) -> str:
        async with chat(server.address, token=token) as client:
            return final_text(await client.ask(repr(operation), agent_id=agent_id))

    async with running_server(tmp_path, agents=AGENTS) as server:
        for agent_id, seen in (("in_loop", "nothing"), ("shared", "facts/k={'v': 1}")):
            await of(server, "dev:ann", agent_id, "put", ("facts",), "k", {"v": 1})
            assert await of(server, "dev:ann", agent_id, "get", ("facts",), "k") == "facts/k={'v': 1}"
            assert await of(server, "dev:bob", agent_id, "get", ("facts",), "k") == seen
            assert await of(server, "dev:bob", agent_id, "search", (), {}) == seen
        assert await of(server, "dev:bob", "in_loop", "list_namespaces", {}) == "nothing"
        assert await of(server, "dev:ann", "without", "search", (), {}) == "no store"


async def test_a_store_that_a_graph_was_compiled_with_is_kept(server: RunningServer) -> None:
    await answer(server, "with_own", "put", ("own",), "k", {"v": 1})
    assert [item.key for item in compiled_in.search(("own",))] == ["k"]
    assert await answer(server, "in_loop", "get", ("own",), "k") == "nothing"


async def test_tools_and_functions_that_make_a_graph_get_the_store(server: RunningServer) -> None:
    events = await ask(server.address, "go", agent_id="with_tool")
    assert ("tool_result", "facts/tea={'text': 'tea'}") in told(events)
    assert final_text(await ask(server.address, "go", agent_id="at_build")) == "facts/tea={'text': 'tea'}"


async def test_an_expert_has_the_store_of_its_own_entry(server: RunningServer) -> None:
    await ask(server.address, "go", agent_id="chief")
    assert await answer(server, "shared", "get", ("of", "expert"), "k") == "of.expert/k={'v': 1}"
    assert await answer(server, "in_loop", "get", ("of", "expert"), "k") == "nothing"
    await ask(server.address, "go", agent_id="chief-of-own")
    assert compiled_in.get(("of", "expert"), "k") is not None


async def test_the_event_loop_is_never_blocked_by_the_store(server: RunningServer) -> None:
    assert "await store.aget" in final_text(await ask(server.address, "go", agent_id="careless"))
    assert final_text(await ask(server.address, "go", agent_id="own_loop")) == "loop/k={'v': 1}"


async def test_a_query_reads_what_is_kept_and_keeps_nothing(server: RunningServer) -> None:
    await answer(server, "in_loop", "put", ("facts",), "k", {"v": 1})
    await answer(server, "in_loop", "put", ("facts",), "k", {"v": 2}, mode="query")
    await answer(server, "in_loop", "delete", ("facts",), "k", mode="query")
    assert await answer(server, "in_loop", "get", ("facts",), "k", mode="query") == "facts/k={'v': 1}"


@pytest.mark.parametrize(
    "operation, code, content",
    [
        (("put", ("a",), "k", {"v": '"' * 200_000}), "limit_reached", "262144 bytes"),
        (("put", ("a",), "k" * 2000, {}), "limit_reached", "1024 characters"),
        (("put", ("a",) * 2000, "k", {}), "limit_reached", "1024 characters"),
        (("put", ("a",), "third", {}), "limit_reached", "2 items"),
        (("put", ("a",), "one", {"v": "x" * 2000}), "limit_reached", "2048 bytes"),
        (("put", ("a",), "k", {"v": {1, 2}}), "internal", ""),
        (("put", ("a.b",), "k", {}), "internal", ""),
    ],
    ids=range(7),
)
async def test_what_can_not_be_kept_fails_and_nothing_is_lost(
    tmp_path: Path, operation: tuple[Any, ...], code: str, content: str
) -> None:
    settings = {"agents": {"store_items": 2, "store_bytes": 2048}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server:
        await answer(server, "in_loop", "put", ("a",), "one", {"v": 1})
        await answer(server, "in_loop", "put", ("a",), "two", {"v": "x" * 1500})
        async with chat(server.address) as client:
            events = await client.ask(repr(operation), agent_id="in_loop")
        check_exchange(events)
        assert events[-1]["error"]["code"] == code and content in events[-1]["error"]["content"]
        assert await answer(server, "in_loop", "get", ("a",), "one") == "a/one={'v': 1}"
        assert await answer(server, "in_loop", "list_namespaces", {}) == "a"


async def test_items_outlive_the_session_that_made_them(server: RunningServer) -> None:
    events = await ask(server.address, repr(("put", ("facts",), "k", {"v": 1})), agent_id="in_loop")
    async with rest(server) as http:
        await http.delete(f"/sessions/{events[0]['session_id']}")
    assert await answer(server, "in_loop", "get", ("facts",), "k") == "facts/k={'v': 1}"
