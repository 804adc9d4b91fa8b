"""Agents that their entries alone make, on a real server with the offline model."""

import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs.talk import ask, told
from services.mcp_raw import raw_server
from support.chat_client import Event, chat, final_text
from support.http_api import DOCUMENT, HttpApi, http_api
from support.rest_client import plain_http
from support.running_server import RunningServer, running_server

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.server.reload.configuration import ConfigurationFiles

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
CODE = '''
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool


def shout(text: str, times: int = 1) -> str:
    """Say it loudly.

    Args:
        text: What to say.
        times: How often.
    """
    return " ".join([text.upper()] * times)


async def whisper(text: str) -> str:
    """Say it softly."""
    return text.lower()


@tool
def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


class Marking(AgentMiddleware):
    def __init__(self, mark: str) -> None:
        self.mark = mark

    async def awrap_tool_call(self, request, handler):
        result = await handler(request)
        return result.model_copy(update={"content": f"{self.mark} {result.content}"})
'''
ENTRIES: list[dict[str, Any]] = [
    {"id": "bare"},
    {"id": "voice", "prompt": {"file": "prompt.md"}, "tools": ["voices:shout", "voices:whisper", "current_time"]},
    {
        "id": "crm",
        "description": "Knows the customers.",
        "apis": [{"id": "crm", "operations": ["*", "addNote"]}],
        "require_approval": ["add*"],
    },
    {
        "id": "middle",
        "tools": ["voices:shout"],
        "middleware": [
            {"name": "TodoListMiddleware"},
            {"name": "voices:Marking", "args": {"mark": "!"}},
            {"name": "ToolCallLimitMiddleware", "args": {"run_limit": 1, "exit_behavior": "end"}},
            {"name": "SummarizationMiddleware", "args": {"model": "default", "trigger": ["messages", 50]}},
        ],
    },
    {"id": "weather", "output": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    {
        "id": "ops",
        "tools": ["voices:shout"],
        "tuning": {"mcp_servers": [{"id": "operations", "tools": ["server_health"]}]},
    },
    {"id": "boss", "type": "leader", "crew": ["voice", "crm"], "prompt": "You lead.", "tools": ["current_time"]},
]


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[tuple[RunningServer, HttpApi]]:
    (directory / "voices.py").write_text(CODE)
    (directory / "prompt.md").write_text("You are a voice.")
    document = directory / "crm.json"
    document.write_text(json.dumps(DOCUMENT))
    path = sys.path[:]
    try:
        async with http_api() as api:
            settings = {"apis": {"crm": api.settings(document, auth={"mode": "user_token"})}}
            async with running_server(directory, agents=ENTRIES, settings=settings) as server:
                yield server, api
    finally:
        sys.path[:] = path
        sys.modules.pop("voices", None)


def results(events: Sequence[Event]) -> list[str]:
    return [text for channel, text in told(events) if channel == "tool_result"]


async def test_an_entry_is_enough(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _):
        async with plain_http(base_url=server.address) as client:
            listed = (await client.get("/agentic/v1/agents")).json()
        tools = {agent["id"]: agent.get("tools") for agent in listed.get("agents", listed)}
        assert tools["voice"] == ["shout", "whisper", "current_time"]
        assert tools["crm"] == ["getCustomer", "listNotes", "addNote", "getAnswer", "get_whoami"]
        assert "Zorblax" in final_text(await ask(server.address, "repeat after me: Zorblax", agent_id="bare"))
        say = 'call shout(text="hi", times=2)'
        assert results(await ask(server.address, say, agent_id="voice")) == ["HI HI"]
        assert results(await ask(server.address, 'call whisper(text="HI")', agent_id="voice")) == ["hi"]
        assert results(await ask(server.address, 'call shout(text="a")', agent_id="middle")) == ["! A"]
        answer = await ask(server.address, 'call answer(city="Bern")', agent_id="weather")
        [code] = [part for part in answer[-1]["messages"][-1]["parts"] if part["type"] == "code"]
        assert json.loads(code["code"]) == {"city": "Bern"}
        assert "live" in results(await ask(server.address, "call server_health()", agent_id="ops"))[0]
        asked = await ask(server.address, 'call ask_voice(question="repeat after me: Zorblax")', agent_id="boss")
        assert "Zorblax" in results(asked)[-1]
        found = await ask(server.address, 'call getCustomer(id="7")', agent_id="crm")
        assert json.loads(results(found)[0])["path"] == "/v1/customers/7"
        missing = await ask(server.address, 'call getAnswer(kind="missing")', agent_id="crm")
        assert "404" in results(missing)[0]
        [part] = [p for m in missing[-1]["messages"] if m["channel"] == "tool_result" for p in m["parts"]]
        assert part["ok"] is False


async def test_an_operation_that_changes_something_waits_for_a_person(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, api), chat(server.address) as client:
        await client.send({"message": 'use the tool addNote with {"body": {"text": "Hi"}}', "agent_id": "crm"})
        waiting = await client.until("awaiting_human")
        assert api.seen == []
        [request] = waiting["payload"]["requests"]
        decision = {name: request[name] for name in ("call_id", "args_sha256")}
        resumed = {"decisions": [{**decision, "action": "approve"}]}
        ids = {name: waiting[name] for name in ("session_id", "exchange_id")}
        await client.send({"type": "human_resume", **ids, "payload": resumed})
        final = await client.until("final")
    assert final["status"] == "ok"
    assert [(call["method"], call["body"]) for call in api.seen] == [("POST", '{"text": "Hi"}')]


def test_the_example_of_the_documentation_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tmp_path)
    section = PAGE.partition("## An agent in YAML alone")[2].partition("\n## ")[0]
    entries, tools, settings = re.findall(r"```(?:yaml|python)\n(.*?)```", section, re.DOTALL)
    catalog = tmp_path / "agents_catalog.yaml"
    catalog.write_text(entries)
    (tmp_path / "desk_tools.py").write_text(tools)
    (tmp_path / "crm.json").write_text(json.dumps(DOCUMENT))
    apis = {name: ApiSettings.model_validate(api) for name, api in yaml.safe_load(settings)["apis"].items()}
    try:
        manager = AgentManager.load(catalog, ["default"], apis=apis)
    finally:
        sys.modules.pop("desk_tools", None)
    assert manager.problems == []
    desk = manager.entry("desk")
    assert desk.tool_names == ["current_time", "create_note", "shipping_days", "getCustomer", "addNote"]
    assert desk.models == {"default"}


REFERRING = """
from langchain_core.tools import StructuredTool, tool


def tool_with(name, reference):
    schema = {"type": "object", "properties": {"a": {"$ref": reference}}, "$defs": {"x": {"$anchor": "x"}}}
    return StructuredTool(name=name, description="Refers.", args_schema=schema, func=print)


async def streaming(text):
    'Stream a text.'
    yield text


decorated = tool(streaming)
referring, anchored = tool_with("referring", "#/$defs/Nope"), tool_with("anchored", "#x")
"""

MISTAKES = [
    ("prompt: ''", "prompt: the prompt is empty; leave the key out for an agent without one"),
    ("prompt: 5", "prompt: expected a text, or a mapping with the key 'file'"),
    ("prompt: {flie: x}", "prompt.flie: unknown key 'flie'; did you mean 'file'?"),
    ("prompt: {file: nowhere.md}", "prompt.file: this file can't be read: No such file or directory"),
    ("tools: [curent_time]", "tools[0]: there is no standard tool 'curent_time'; did you mean 'current_time'?"),
    ("tools: ['voices:shuot']", "tools[0]: module 'voices' has no 'shuot'; did you mean 'shout'?"),
    ("tools: ['voices:CODE']", "tools[0]: expected a function or a LangChain tool, found a value of type str"),
    ("tools: ['voices:shout', 'voices:shout']", "tools[1]: there are two tools called 'shout'"),
    ("tools: ['voices:streaming']", "tools[0]: the function yields; a tool returns its whole result"),
    ("tools: ['voices:decorated']", "tools[0]: the function yields; a tool returns its whole result"),
    ("tools: ['voices:silent']", "tools[0]: the function has no docstring, which tells the model what it does"),
    ("apis: [{id: crn}]", "apis[0].id: there is no API 'crn'; did you mean 'crm'?"),
    ("apis: [{id: crm, url: x}]", "apis[0].url: unknown key 'url'"),
    ("apis: [{id: crm, operations: [getNotes]}]", "apis[0].operations[0]: there is no operation 'getNotes'; did you"),
    ("apis: [{id: crm, operations: [upload]}]", "apis[0].operations[0]: this operation can't be a tool: its body is"),
    ("apis: [{id: gone}]", "apis[0].id: the OpenAPI document 'gone.json' can't be read"),
    ("middleware: [{name: ModelCallLimit}]", "middleware[0].name: there is no middleware 'ModelCallLimit'; did you"),
    ("middleware: [{name: ShellToolMiddleware}]", "middleware[0].name: ShellToolMiddleware runs commands on the"),
    ("middleware: [{name: HumanInTheLoopMiddleware}]", "'require_approval' asks for approval"),
    ("middleware: [{name: 'voices:shout'}]", "middleware[0].name: expected a class derived from AgentMiddleware"),
    (
        "middleware: [{name: ToolRetryMiddleware, args: {max_retires: 3}}]",
        "middleware[0].args.max_retires: ToolRetryMiddleware takes no argument 'max_retires'; did you mean",
    ),
    (
        "middleware: [{name: ToolRetryMiddleware, args: {max_retries: lots}}]",
        "middleware[0].args.max_retries: Input should be a valid integer",
    ),
    (
        "middleware: [{name: SummarizationMiddleware, args: {model: defualt}}]",
        "middleware[0].args.model: there is no model 'defualt', nor is this a model such as 'openai:gpt-5.5'; did you",
    ),
    ("middleware: [{name: ModelCallLimitMiddleware}]", "middleware[0].name: can't be made: At least one limit must"),
    ("middleware: [{name: 'voices:Marking'}]", "middleware[0].name: needs the argument 'mark'"),
    ("output: {type: objekt}", "output.type: is no JSON Schema"),
    (
        "output: {type: object, properties: {a: {$ref: '#/$defs/Nope'}}}",
        "output.properties.a: no model can be given this JSON Schema: the reference '#/$defs/Nope' leads nowhere",
    ),
    ("tools: ['voices:referring']", "tools[0]: no model can be given the arguments of the tool 'referring': the ref"),
    ("tools: ['voices:anchored']", "tools[0]: no model can be given the arguments of the tool 'anchored': "),
    ("output: {type: string}", "output: expected a JSON Schema with 'type: object' and 'properties'"),
    ("tuning: {fields: {system_prompt: x}}", "tuning.fields: an agent without code of its own reads no fields"),
    ("tools: ['voices:shout'], require_approval: [shuot]", "the agent has no tool 'shuot'; did you mean 'shout'?"),
    ("type: leader, crew: [othre]", "crew[0]: there is no agent 'othre'; did you mean 'other'?"),
    ("class_path: 'voices:graph', prompt: Hello", "prompt: only an agent without a class_path has 'prompt'"),
]


@pytest.mark.parametrize(("keys", "problem"), MISTAKES, ids=[keys for keys, _ in MISTAKES])
def test_a_mistake_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str, problem: str
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tmp_path)
    code = f"CODE = 'x'\n{CODE}\n\ndef silent(): ...\n\n\ndef graph(model): ...\n{REFERRING}"
    (tmp_path / "voices.py").write_text(code)
    (tmp_path / "crm.json").write_text(json.dumps(DOCUMENT))
    catalog = tmp_path / "agents.yaml"
    catalog.write_text(f"agents:\n- {{id: other}}\n- {{id: one, {keys}}}\n")
    apis = {name: ApiSettings(document=f"{name}.json", base_url="http://127.0.0.1:1") for name in ("crm", "gone")}
    try:
        manager = AgentManager.load(catalog, ["default"], apis=apis)
    finally:
        sys.modules.pop("voices", None)
    assert [agent.settings.id for agent in manager.served()] == ["other"]
    told = [str(found) for found in manager.problems]
    assert any(problem in text and "agents[1]" in text and f"{catalog}:3:" in text for text in told), told


def test_a_reload_sees_the_files_that_an_entry_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name, content in {"voices.py": CODE, "prompt.md": "One.", "crm.json": json.dumps(DOCUMENT)}.items():
        (tmp_path / name).write_text(content)
    catalog, config = tmp_path / "agents.yaml", tmp_path / "settings.yaml"
    entries = [
        {"id": "bare"},
        {"id": "crm", "apis": [{"id": "crm"}]},
        {"id": "prompted", "prompt": {"file": "prompt.md"}},
        {"id": "loud", "tools": ["voices:shout"]},
    ]
    catalog.write_text(yaml.safe_dump({"agents": entries}))
    api = {"document": str(tmp_path / "crm.json"), "base_url": "http://127.0.0.1:1"}
    config.write_text(yaml.safe_dump({"catalog": str(catalog), "apis": {"crm": api}}))
    files = ConfigurationFiles(config, {})
    running = files.read(files.settings())
    models = ChatModels({"default": OfflineChatModel()})
    try:
        assert {tmp_path / name for name in ("voices.py", "prompt.md", "crm.json")} <= files.files(running)
        for name, content, changed in [
            ("prompt.md", "Two.", "prompted"),
            ("voices.py", f"{CODE}\nMORE = 1\n", "loud"),
            ("crm.json", json.dumps({**DOCUMENT, "info": {"title": "CRM", "version": "2"}}), "crm"),
        ]:
            (tmp_path / name).write_text(content)
            reread = files.reread(running, models)
            reread.aside.forget()
            assert running.agents.become(reread.configuration.agents).changed == [changed]
    finally:
        sys.modules.pop("voices", None)


@pytest.mark.parametrize("guard", ["crm/drop", "drop", "dr*", "crm_drop"])
async def test_a_tool_that_a_neighbour_renames_still_waits_for_a_person(tmp_path: Path, guard: str) -> None:
    offered = raw_server([{"name": "drop"}], result={"content": [{"type": "text", "text": "dropped"}]})
    uses = {"tuning": {"mcp_servers": [{"id": "crm"}, {"id": "other"}]}}
    entry = {"id": "clerk", "require_approval": [guard], **uses}
    settings = {"mcp_servers": {"crm": offered, "other": offered}}
    async with running_server(tmp_path, agents=[entry], settings=settings) as server, chat(server.address) as client:
        await client.send({"message": "call crm_drop()", "agent_id": "clerk"})
        [request] = (await client.until("awaiting_human"))["payload"]["requests"]
    assert request["name"] == "crm_drop"


LIMITED = "Tool call limit exceeded"


@pytest.mark.parametrize(("named", "is_limited"), [("crm/drop", True), ("crm_drop", True), ("other/drop", False)])
async def test_a_limit_of_middleware_stays_with_a_tool_that_a_neighbour_renames(
    tmp_path: Path, named: str, is_limited: bool
) -> None:
    offered = raw_server([{"name": "drop"}], result={"content": [{"type": "text", "text": "dropped"}]})
    limit = {"name": "ToolCallLimitMiddleware", "args": {"tool_name": named, "run_limit": 0}}
    uses = {"tuning": {"mcp_servers": [{"id": "crm"}, {"id": "other"}]}}
    settings = {"mcp_servers": {"crm": offered, "other": offered}}
    agents = [{"id": "clerk", "middleware": [limit], **uses}]
    async with running_server(tmp_path, agents=agents, settings=settings) as server, chat(server.address) as client:
        events = await client.ask("call crm_drop()", agent_id="clerk")
    results = [part["content"] for message in events[-1]["messages"] for part in message["parts"] if "content" in part]
    assert (LIMITED in str(results)) == is_limited, results


async def test_a_limit_of_a_tool_that_two_servers_have_is_undecided(tmp_path: Path) -> None:
    offered = raw_server([{"name": "drop"}], result={"content": []})
    limit = {"name": "ToolCallLimitMiddleware", "args": {"tool_name": "drop", "run_limit": 1}}
    uses = {"tuning": {"mcp_servers": [{"id": "crm"}, {"id": "other"}]}}
    settings = {"mcp_servers": {"crm": offered, "other": offered}}
    agents = [{"id": "clerk", "middleware": [limit], **uses}]
    async with running_server(tmp_path, agents=agents, settings=settings) as server, chat(server.address) as client:
        error = (await client.ask("call crm_drop()", agent_id="clerk"))[-2]
    assert error["code"] == "agent_unavailable"
    assert "has 'crm_drop' and 'other_drop'" in error["content"]


async def test_a_neighbour_can_not_stand_for_a_tool_that_its_server_no_longer_has(tmp_path: Path) -> None:
    servers = {
        id: raw_server([{"name": name}], result={"content": []}) for id, name in (("crm", "go"), ("other", "crm/drop"))
    }
    entry = {"id": "clerk", "require_approval": ["crm/drop"], "tuning": {"mcp_servers": [{"id": id} for id in servers]}}
    async with (
        running_server(tmp_path, agents=[entry], settings={"mcp_servers": servers}) as server,
        chat(server.address) as client,
    ):
        error = (await client.ask("call go()", agent_id="clerk"))[-2]
    assert error["code"] == "agent_unavailable"
    assert "requires approval of the tool 'crm/drop', which it does not have" in error["content"]
