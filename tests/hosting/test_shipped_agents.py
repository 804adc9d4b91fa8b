"""Agents that applications ship: served beside the operator's, who may change them or keep them away."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.chat_client import chat, text_of
from support.running_server import running_server

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.auth.user import User
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.hosting.loading import load_applications

Ship = Callable[..., str]


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ship:
    """Writes an application with these agents; answers with its class path."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, *agents: dict[str, Any], catalog: str | None = None) -> str:
        monkeypatch.delitem(sys.modules, f"shipped_{name}", raising=False)
        package = tmp_path / f"shipped_{name}"
        package.mkdir()
        (package / "__init__.py").write_text(
            "from agentic_backend.application import Application\n"
            "class It(Application):\n"
            f"    id, title, version, catalog = {name!r}, {name!r}, '1', 'agents.yaml'\n"
        )
        (package / "agents.yaml").write_text(catalog or yaml.safe_dump({"agents": list(agents)}))
        return f"shipped_{name}:It"

    return write


def entry(agent_id: str, **more: Any) -> dict[str, Any]:
    return {"id": agent_id, "class_path": "agentic_backend.experts.assistant.assistant:Assistant", **more}


def manager(tmp_path: Path, own: list[dict[str, Any]], *paths: str) -> AgentManager:
    file = tmp_path / "agents_catalog.yaml"
    file.write_text(yaml.safe_dump({"agents": own}))
    applications = load_applications([ApplicationEntry(class_path=path) for path in paths])
    assert applications.problems == []
    return AgentManager.load(file, {"default"}, shipped=applications.catalogs)


def ids(agents: AgentManager) -> list[str]:
    return [agent.settings.id for agent in agents.served()]


async def test_they_answer_beside_the_operators(tmp_path: Path, ship: Ship) -> None:
    path = ship("helpers", entry("helper", name="Helper"))
    async with running_server(tmp_path, settings={"applications": [{"class_path": path}]}) as server:
        async with chat(server.address) as client:
            events = await client.ask("words 3 0", agent_id="helper")
        assert events[-1]["status"] == "ok" and text_of(events[-1]["messages"][-1])
        async with chat(server.address) as client:
            assert (await client.ask("words 3 0"))[-1]["status"] == "ok"


COUNTER = """
from langchain_core.tools import tool
from agentic_backend.application import Application, application_of, current_context

class It(Application):
    id, title, version, catalog = "counter", "Counter", "1", "agents.yaml"

    def __init__(self, settings):
        self.counted = 0

@tool
async def count() -> str:
    "Count."
    it = application_of(It)
    it.counted += 1
    return f"{it.counted} for {current_context().user_id}"
"""


async def test_their_tools_find_the_application_that_serves(tmp_path: Path, ship: Ship) -> None:
    path = ship("counter", {"id": "counter", "tools": ["shipped_counter:count"]})
    (tmp_path / "shipped_counter" / "__init__.py").write_text(COUNTER)
    settings = {"applications": [{"class_path": path}]}
    async with running_server(tmp_path, settings=settings) as server, chat(server.address, token="dev:ann") as client:
        for number in (1, 2):
            final = (await client.ask("use the tool count with {}", agent_id="counter"))[-1]
            results = [part for one in final["messages"] for part in one["parts"] if part["type"] == "tool_result"]
            assert [result["content"] for result in results] == [f"{number} for ann"]


def test_the_operator_changes_them_and_keeps_them_away(tmp_path: Path, ship: Ship) -> None:
    path = ship("many", entry("one", name="One"), entry("two"), entry("three"))
    own = [entry("own"), entry("one", name="Ours"), entry("two", enabled=False)]
    agents = manager(tmp_path, own, path)
    assert ids(agents) == ["own", "one", "three"]
    assert agents.entry("one").settings.name == "Ours" and agents.problems == []
    assert "two" in agents.known_ids


def test_none_of_them_becomes_the_default(tmp_path: Path, ship: Ship) -> None:
    agents = manager(tmp_path, [entry("own")], ship("eager", entry("eager", default=True)))
    user = User("ann", "Ann")
    assert agents.get(None, user).settings.id == "own" and agents.problems == []


def test_faults_of_one_harm_no_other(tmp_path: Path, ship: Ship) -> None:
    faulty = ship("faulty", catalog="agents: [")
    bad = ship("bad", entry("lost", class_path="no_such:Agent"), entry("replaced", model=7), entry("good"))
    same = ship("same", entry("good"), entry("other"))
    agents = manager(tmp_path, [entry("own"), entry("replaced")], faulty, bad, same)
    assert ids(agents) == ["own", "replaced", "good", "other"]
    told = [str(problem).removeprefix(f"{tmp_path}/") for problem in agents.problems]
    assert sorted(each.split(":")[0] for each in told) == [
        "shipped_bad/agents.yaml",
        "shipped_faulty/agents.yaml",
        "shipped_same/agents.yaml",
    ]
    assert "the id 'good' is taken by an agent of" in "".join(told)


@pytest.mark.parametrize(("catalog", "why"), [("'../x.yaml'", "the name of a file"), ("'no.yaml'", "there is no file")])
def test_the_file_is_beside_the_class(tmp_path: Path, ship: Ship, catalog: str, why: str) -> None:
    path = ship("moved")
    module = tmp_path / "shipped_moved" / "__init__.py"
    module.write_text(module.read_text().replace("'agents.yaml'", catalog))
    [problem] = load_applications([ApplicationEntry(class_path=path)]).problems
    assert why in str(problem)


def test_their_versions_are_part_of_what_instances_compare(tmp_path: Path, ship: Ship) -> None:
    path = ship("versions", entry("one"))
    before = manager(tmp_path, [entry("own")], path).sources.file_hash
    assert manager(tmp_path, [entry("own")], path).sources.file_hash == before
    file = tmp_path / "shipped_versions" / "agents.yaml"
    file.write_text(file.read_text().replace("id: one", "id: uno"))
    assert manager(tmp_path, [entry("own")], path).sources.file_hash != before
