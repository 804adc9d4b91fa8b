"""`validate` and `validate --build` from the command line: what is checked, and what each agent fails with."""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.server_process import PATIENCE_S, command

MODULE = """
import asyncio, sys, time
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_sdk.runtime import ServerRuntime
from pydantic import BaseModel
from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.mcp.mcp_runtime import MCPRuntime

builder = StateGraph(MessagesState)
builder.add_node("answer", lambda state: {})
builder.add_edge(START, "answer")
graph = builder.compile()

class Fields(BaseModel):
    desk: str = "main"

class Desk(AgentFlow):
    Fields = Fields
    async def async_init(self):
        if self.fields.desk == "closed":
            raise ConnectionError("no database at the desk")
    def get_compiled_graph(self):
        return graph

class Tools(Desk):
    async def async_init(self):
        self.mcp = MCPRuntime(self)
        await self.mcp.init()

class Hangs(Desk):
    async def async_init(self):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

class Tells(Desk):
    async def async_init(self):
        raise ConnectionError("refused plinthgaze and quokkaberry")

def remembers(runtime: ServerRuntime):
    assert runtime.store.search(("desk",)) == []
    return graph

def blocks():
    time.sleep(3600)

def leaves():
    sys.exit(3)

def nothing():
    return None
"""

PROGRAM = """
from mcp.server.fastmcp import FastMCP
server = FastMCP("desk")
@server.tool()
def note(text: str) -> str:
    return text
server.run()
"""


def entry(agent_id: str, target: str, **more: Any) -> dict[str, Any]:
    return {"id": agent_id, "class_path": f"desk_agents:{target}", **more}


def uses(server_id: str) -> dict[str, Any]:
    return {"mcp_servers": [{"id": server_id}]}


async def validate(
    directory: Path, agents: list[dict[str, Any]], *arguments: str, **settings: Any
) -> tuple[int, str, str]:
    """The status, the output and the errors of `validate` on these agents, in a catalog with its modules beside it."""
    beside, elsewhere = directory / "beside", directory / "elsewhere"
    beside.mkdir()
    elsewhere.mkdir()
    (beside / "desk_agents.py").write_text(MODULE)
    (beside / "program.py").write_text(PROGRAM)
    (beside / "catalog.yaml").write_text(yaml.safe_dump({"agents": agents}))
    (beside / "settings.yaml").write_text(yaml.safe_dump({"agents": {"build_timeout_s": 5}, **settings}))
    files = ["--catalog", str(beside / "catalog.yaml"), "--config", str(beside / "settings.yaml")]
    async with command("validate", *files, *arguments, cwd=elsewhere) as process:
        status = await process.ended(2 * PATIENCE_S)
    return status, process.stdout, process.stderr


async def test_validate_says_what_it_checked_and_builds_nothing(tmp_path: Path) -> None:
    agents = [entry("blocks", "blocks"), entry("desk", "Desk", tuning={"fields": {"desk": "closed"}})]
    status, told, errors = await validate(tmp_path, agents)
    assert (status, errors) == (0, "")
    assert told.splitlines()[0] == "2 agents can be served, 0 problems"
    assert "Checked: the settings" in told and "Not checked: what --build does" in told
    assert "--deep, which connects to the store, Redis, the realm" in told.splitlines()[-1]


async def test_build_says_of_each_agent_whether_it_can_be_built_and_at_which_line_not(tmp_path: Path) -> None:
    program = {"transport": "stdio", "command": sys.executable, "args": [str(tmp_path / "beside" / "program.py")]}
    servers = {
        "notes": program,
        "away": {"transport": "stdio", "command": sys.executable, "args": ["-c", "raise SystemExit(1)"]},
        "personal": {"url": "http://127.0.0.1:9/mcp", "auth": {"mode": "user_token"}},
    }
    agents = [
        entry("good", "Desk"),
        entry("graph", "graph"),
        entry("closed", "Desk", tuning={"fields": {"desk": "closed"}}),
        entry("with-notes", "Tools", tuning=uses("notes")),
        entry("without-server", "Tools", tuning=uses("away")),
        entry("personal", "Tools", tuning=uses("personal")),
        entry("no-package", "Desk", model="groq:llama"),
        entry("leaves", "leaves"),
        entry("nothing", "nothing"),
        entry("hangs", "Hangs"),
        entry("blocks", "blocks"),
    ]
    status, told, errors = await validate(tmp_path, agents, "--build", mcp_servers=servers)
    assert status == 2
    lines = {
        line.split()[1].rstrip(":"): line for line in told.splitlines() if line.split()[0] in ("ok", "fault", "skipped")
    }
    assert list(lines) == [agent["id"] for agent in agents], told + errors
    assert [name for name, line in lines.items() if line.startswith("ok ")] == ["good", "graph", "with-notes"]
    assert "ConnectionError: no database at the desk at " in lines["closed"]
    assert lines["closed"].endswith("desk_agents.py:21 in async_init")
    assert "'away' can't be reached" in lines["without-server"]
    assert lines["personal"].startswith("skipped") and "a user's token for personal" in lines["personal"]
    assert "'groq:llama' is not available" in lines["no-package"]
    assert "the model 'groq:llama' can't be built" in errors
    assert "SystemExit: 3 at " in lines["leaves"]
    assert "returned no graph" in lines["nothing"]
    assert lines["hangs"].startswith("fault") and lines["blocks"].startswith("fault")
    assert "their models (none was called)" in told


async def test_build_of_what_is_good_ends_well(tmp_path: Path) -> None:
    status, told, errors = await validate(tmp_path, [entry("good", "Desk")], "--build")
    assert (status, errors) == (0, "")
    assert "ok       good" in told.splitlines()


async def test_build_gives_a_store_and_leaves_secrets_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_TOKEN", "quokkaberry")
    notes = {"transport": "stdio", "command": "notes", "env": {"NOTES_TOKEN": "plinthgaze"}}
    agents = [entry("remembers", "remembers"), entry("tells", "Tells")]
    status, told, errors = await validate(tmp_path, agents, "--build", mcp_servers={"notes": notes})
    assert (status, errors) == (2, "")
    assert "ok       remembers" in told.splitlines(), told
    assert "ConnectionError: refused [redacted] and [redacted] at " in told
    assert "quokkaberry" not in told and "plinthgaze" not in told


@pytest.mark.parametrize("arguments", [(), ("--build",)])
async def test_what_the_catalog_has_wrong_is_told_either_way(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    agents = [entry("good", "Desk"), entry("typo", "Desk", tuning={"fields": {"dezk": "main"}})]
    status, told, errors = await validate(tmp_path, agents, *arguments)
    assert status == 2
    assert "1 agent can be served, 1 problem" in told
    assert "unknown field 'dezk'; did you mean 'desk'?" in errors and "catalog.yaml:" in errors


async def test_the_version_is_told() -> None:
    async with command("--version", cwd=Path()) as process:
        assert await process.ended() == 0
    assert process.stdout == f"agentic-backend {version('agentic-backend')}\n"


@pytest.mark.parametrize(("port", "status"), [("8123\n", 0), ("no-port", 2)])
async def test_a_setting_may_come_from_a_file(tmp_path: Path, port: str, status: int) -> None:
    (tmp_path / "port").write_text(port)
    environment = {"AGENTIC_SERVER__PORT_FILE": str(tmp_path / "port"), "AGENTIC_MODELS__DEFAULT__MODEL": "offline"}
    async with command("validate", cwd=tmp_path, environment=environment) as process:
        assert await process.ended(PATIENCE_S) == status
    assert ("AGENTIC_SERVER__PORT: expected an integer" in process.stderr) == bool(status)
