"""What a graph did to its messages is what it is given next; the transcript stays whole for people."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from graphs.memory_graphs import GRAPHS
from graphs.talk import ask
from support.chat_client import chat, final_text, text_of
from support.further_cases import further
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server

AGENTS: list[dict[str, Any]] = [
    {"id": name, "class_path": f"graphs.memory_graphs:{name}"}
    for name in [*GRAPHS, "subgraph", "summing", "pausing", "hanging", "failing"]
]
WAYS = ["warm", "evicted", "restarted"]
# After an eviction as after a restart, it is given what was stored.
every_way = pytest.mark.parametrize("way", ["warm", "evicted", further("restarted")])


def each_in_one_way(graphs: list[str]) -> list[Any]:
    """Each graph is given what was stored; the first also what the agent still has, and on a new server."""
    return [
        (pytest.param if way == "evicted" or graph == graphs[0] else further)(graph, way)
        for graph in graphs
        for way in WAYS
    ]


class Talk:
    """A conversation that goes on in one session, warm, with the agent evicted, or with a new server each time."""

    def __init__(self, directory: Path, agent_id: str, way: str, **chat_settings: Any) -> None:
        self._directory, self._agent_id, self._way = directory, agent_id, way
        self._agents = [{**agent, "chat": chat_settings} for agent in AGENTS]
        self._server: RunningServer | None = None
        self.session_id: str | None = None

    @asynccontextmanager
    async def server(self) -> AsyncIterator[RunningServer]:
        if self._server is not None:
            yield self._server
            return
        settings = {"agents": {"cache_size": 1}} if self._way == "evicted" else {}
        async with running_server(self._directory, agents=self._agents, settings=settings) as server:
            yield server

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Talk"]:
        if self._way == "restarted":
            yield self
            return
        async with self.server() as server:
            self._server = server
            yield self

    async def say(self, text: str, agent_id: str | None = None) -> str:
        async with self.server() as server:
            if self._way == "evicted":
                await ask(server.address, "tell", agent_id=self._agent_id)
            events = await ask(server.address, text, agent_id=agent_id or self._agent_id, session_id=self.session_id)
            self.session_id = events[0]["session_id"]
            return final_text(events)

    async def fail(self, text: str = "fail") -> None:
        async with self.server() as server, chat(server.address) as client:
            events = await client.ask(text, session_id=self.session_id, agent_id=self._agent_id)
            assert events[-1]["status"] == "error"

    async def transcript(self) -> list[str]:
        async with self.server() as server, rest(server) as client:
            assert self.session_id is not None
            return [text_of(message) for message in await messages_of(client, self.session_id)]


@pytest.mark.parametrize(("agent_id", "way"), each_in_one_way(GRAPHS))
async def test_what_a_graph_forgets_is_forgotten(tmp_path: Path, agent_id: str, way: str) -> None:
    async with Talk(tmp_path, agent_id, way).open() as talk:
        await talk.say("my pin is 4711")
        assert await talk.say("tell") == "(human: my pin is 4711 | ai: did my | human: tell)"
        await talk.say("forget my pin")
        assert "4711" not in await talk.say("tell"), "the answer that told it has gone too"
        assert "my pin is 4711" in await talk.transcript(), "people can still read it"
        await talk.say("clear")
        assert await talk.say("tell") == "(ai: did clear | human: tell)"
        await talk.say("trim")
        assert await talk.say("tell") == "(human: trim | ai: did trim | human: tell)"


@pytest.mark.parametrize(("agent_id", "way"), each_in_one_way([*GRAPHS, "subgraph"]))
async def test_what_a_graph_adds_is_there_again_and_no_answer(tmp_path: Path, agent_id: str, way: str) -> None:
    async with Talk(tmp_path, agent_id, way).open() as talk:
        assert await talk.say("note") == "did note"
        assert await talk.say("tell") == "(human: note | human: a note | system: a rule | ai: did note | human: tell)"
        assert await talk.transcript() == [
            "note",
            "did note",
            "tell",
            "(human: note | human: a note | system: a rule | ai: did note | human: tell)",
        ]


@every_way
async def test_a_list_that_only_grows_has_nothing_twice(tmp_path: Path, way: str) -> None:
    async with Talk(tmp_path, "summing", way).open() as talk:
        await talk.say("one")
        await talk.say("two")
        assert await talk.say("tell") == "(human: one | ai: did one | human: two | ai: did two | human: tell)"


@every_way
async def test_artifacts_and_content_blocks_stay(tmp_path: Path, way: str) -> None:
    async with Talk(tmp_path, "adds", way).open() as talk:
        await talk.say("dig")
        assert await talk.say("tell") == "(human: dig | ai: digging | tool: {'coin': 1} | ai: did dig | human: tell)"
        shown = await talk.say("show")
    assert """ai digging: [{'type': 'text', 'text': 'digging'}] None | tool found: '' {'coin': 1} |""" in shown


async def test_a_call_that_got_no_result_has_one_next_time(tmp_path: Path) -> None:
    async with Talk(tmp_path, "adds", "warm").open() as talk:
        await talk.say("dangle")
        given = await talk.say("tell")
    assert given == "(human: dangle | ai: dangling | tool: The tool gave no result. | human: tell)"


@every_way
async def test_an_exchange_that_fails_changes_nothing_of_what_was_left(tmp_path: Path, way: str) -> None:
    """What it has told people is given to the graph, and nothing that its graph did to its messages counts."""
    async with Talk(tmp_path, "adds", way).open() as talk:
        await talk.say("my pin is 4711")
        await talk.say("forget my pin")
        await talk.fail()
        given = "ai: did my | ai: did forget | human: fail"
        assert await talk.say("tell") == f"({given} | human: tell)"
        assert await talk.say("tell") == f"({given} | human: tell | ai: ({given} | human: tell) | human: tell)"


@every_way
async def test_what_a_step_removed_is_there_again_if_a_later_one_fails(tmp_path: Path, way: str) -> None:
    async with Talk(tmp_path, "failing", way).open() as talk:
        await talk.say("my pin is 4711")
        await talk.fail("forget my pin")
        assert await talk.say("tell") == (
            "(human: my pin is 4711 | ai: did my | human: forget my pin | ai: did forget | human: tell)"
        )


@every_way
async def test_what_another_agent_said_meanwhile_follows_what_was_left(tmp_path: Path, way: str) -> None:
    async with Talk(tmp_path, "adds", way).open() as talk:
        await talk.say("my pin is 4711")
        await talk.say("forget my pin")
        await talk.say("between", agent_id="delta")
        assert await talk.say("tell") == (
            "(ai: did my | ai: did forget | human: between | ai: did between | human: tell)"
        )


@every_way
async def test_the_window_is_an_upper_bound_that_leaves_what_the_graph_put_in_front(tmp_path: Path, way: str) -> None:
    async with Talk(tmp_path, "adds", way, history_exchanges=2).open() as talk:
        await talk.say("brief")
        for word in ("dig", "two", "three"):
            await talk.say(word)
        given = await talk.say("tell")
    assert (
        given == "(system: In short: a brief | human: two | ai: did two | human: three | ai: did three | human: tell)"
    )


@pytest.mark.parametrize("agent_id", ["adds", "plain"])
async def test_without_a_window_nothing_is_given_again(tmp_path: Path, agent_id: str) -> None:
    async with Talk(tmp_path, agent_id, "warm", history_exchanges=0).open() as talk:
        await talk.say("brief")
        assert await talk.say("tell") == "(human: tell)"


async def test_what_was_forgotten_before_a_pause_stays_forgotten(tmp_path: Path) -> None:
    talk = Talk(tmp_path, "pausing", "restarted")
    await talk.say("my pin is 4711")
    async with talk.server() as server, chat(server.address) as client:
        await client.send({"message": "forget my pin", "session_id": talk.session_id})
        waiting = await client.until("awaiting_human")
    async with talk.server() as server, chat(server.address) as client:
        [request] = waiting["payload"]["requests"]
        answer = {"payload": {"answers": {request["interrupt_id"]: "yes"}}, "exchange_id": waiting["exchange_id"]}
        await client.send({"type": "human_resume", "session_id": talk.session_id, **answer})
        assert final_text([await client.until("final")]) == "heard yes"
    given = "(ai: did my | ai: did forget | ai: heard yes | human: tell)"
    assert await talk.say("tell") == given
    assert await talk.transcript() == [
        "my pin is 4711",
        "did my",
        "forget my pin",
        "did forget",
        "heard yes",
        "tell",
        given,
    ]


async def test_a_stopped_exchange_takes_back_what_its_graph_removed(tmp_path: Path) -> None:
    async with Talk(tmp_path, "hanging", "warm").open() as talk:
        await talk.say("my pin is 4711")
        async with talk.server() as server, chat(server.address) as client:
            await client.send({"message": "forget my pin", "session_id": talk.session_id})
            await client.until("started")
            async with rest(server) as http:
                await http.post(f"/sessions/{talk.session_id}/cancel", json={})
            assert (await client.until("final"))["status"] == "stopped"
        given = await talk.say("tell")
    assert given.startswith("(human: my pin is 4711 | ai: did my | human: forget my pin") and given.endswith("tell)")
