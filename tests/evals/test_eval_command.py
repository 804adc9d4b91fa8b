"""`agentic-backend eval` as a process: what it says of agents, what it writes, and how it ends."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml
from support import approval_agents
from support.approval_agents import NOTES_VARIABLE, calls, runs
from support.running_server import running_server
from support.server_process import PATIENCE_S, ServerProcess, command

from agentic_backend.client import connect
from agentic_backend.protocol.parts import text_of

QUICK = {
    "AGENTIC_MODELS__DEFAULT__MODEL": "offline",
    "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 300}',
}
ASSISTANT = "agentic_backend.experts.assistant.assistant:Assistant"
SEND = calls(("send_email", {"to": "ann@example.org"}))
DELETE = calls(("delete_file", {"path": "notes"}))


def write_evals(directory: Path, *cases: dict[str, Any], **defaults: Any) -> None:
    (directory / "evals.yaml").write_text(yaml.safe_dump({"defaults": defaults, "cases": list(cases)}))


async def evaluated(
    directory: Path, *arguments: object, environment: dict[str, str] | None = None
) -> tuple[int, ServerProcess]:
    """Run the evals of the directory; return the exit status and the output."""
    environment = {**QUICK, NOTES_VARIABLE: str(directory / "notes"), **(environment or {})}
    arguments = ("eval", "evals.yaml", "--json", "results.json", "--junit", "junit.xml", *arguments)
    async with command(*arguments, cwd=directory, environment=environment) as process:
        return await process.ended(2 * PATIENCE_S), process


def results(directory: Path) -> dict[str, dict[str, Any]]:
    """The last run of each case."""
    return {case["id"]: case for case in json.loads((directory / "results.json").read_text())["cases"]}


def failed(case: dict[str, Any]) -> set[str]:
    return {check["check"] for check in case["checks"] if not check["passed"]}


async def test_each_check_can_pass(tmp_path: Path) -> None:
    write_evals(
        tmp_path,
        {
            "id": "all",
            "ask": 'echo: {"greeting": "hello"}',
            "checks": {
                "contains": ["greeting", "hello"],
                "not_contains": "goodbye",
                "regex": "(?i)HEL+O",
                "json_schema": {"type": "object", "required": ["greeting"]},
                "tool_not_called": ["calculate"],
                "max_latency_s": 60,
                "max_tokens": 100_000,
            },
        },
        {
            "ask": "What is 12*34?",
            "checks": {"contains": "408", "tool_called": ["calculate", {"name": "calculate", "args": {}}]},
        },
        {"id": "fails", "ask": "fail", "checks": {"status": "error"}, "agent": "plain-chat"},
        {"id": "remembers", "turns": ["echo: one", "echo: two"], "checks": {"contains": "two", "not_contains": "one"}},
        {"id": "twice", "ask": "echo: again", "repeat": 2},
        agent="assistant",
        timeout_s=PATIENCE_S,
    )
    (tmp_path / "agents_catalog.yaml").write_text(
        yaml.safe_dump(
            {
                "agents": [
                    {"id": "assistant", "class_path": ASSISTANT},
                    {"id": "plain-chat", "class_path": "failing:build"},
                ]
            }
        )
    )
    (tmp_path / "failing.py").write_text(
        "from langgraph.graph import START, MessagesState, StateGraph\n"
        "def answer(state):\n    raise ConnectionError('no desk')\n"
        "build = StateGraph(MessagesState)\n"
        "build.add_node('answer', answer)\nbuild.add_edge(START, 'answer')\nbuild = build.compile()\n"
    )
    status, process = await evaluated(tmp_path)
    assert status == 0, process.stdout + process.stderr
    assert process.stdout.splitlines()[-1].startswith("6 passed, 0 failed, 0 with an error, in ")
    assert process.stderr.splitlines()[-1].startswith("[6/6] passed ")
    found = results(tmp_path)
    assert list(found) == ["all", "case 2", "fails", "remembers", "twice"]
    assert [call["name"] for call in found["case 2"]["tool_calls"]] == ["calculate"]
    assert found["all"]["tokens"] > 0
    assert found["twice"]["run"] == 2
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "0", "0")
    assert not (tmp_path / "data").exists(), "its database is its own"


async def test_each_check_can_fail_and_reports_say_why(tmp_path: Path) -> None:
    approval_agents.write_catalog(tmp_path)
    catalog = yaml.safe_load((tmp_path / "agents_catalog.yaml").read_text())
    catalog["agents"].append({"id": "assistant", "class_path": ASSISTANT})
    (tmp_path / "agents_catalog.yaml").write_text(yaml.safe_dump(catalog))
    both = f"{SEND}\n{DELETE}"
    write_evals(
        tmp_path,
        {
            "id": "all",
            "agent": "inquiring",
            "ask": "x",
            "answers": ["Ann \x1b[31m"],
            "checks": {
                "status": "stopped",
                "contains": ["Hello", "Bob"],
                "not_contains": "Ann",
                "regex": "^Bob",
                "json_schema": {"type": "object"},
                "tool_called": "send_email",
                "max_latency_s": 0.000_001,
                "max_tokens": 1,
            },
        },
        {
            "id": "calls",
            "ask": SEND,
            "approve": "all",
            "checks": {
                "tool_called": {"name": "send_email", "args": {"to": "bob@example.org"}},
                "tool_not_called": "send_email",
            },
        },
        {"id": "asks too much", "agent": "inquiring", "ask": "x"},
        {"id": "slow", "agent": "assistant", "ask": "count down from 9000", "timeout_s": 3},
        {"id": "rejected", "ask": both, "checks": {"tool_called": ["send_email", "delete_file"]}},
        {"id": "approved", "ask": both, "approve": ["delete_*"], "checks": {"contains": "deleted notes"}},
        {"id": "answered", "agent": "choosing", "ask": "x", "answers": ["l"], "checks": {"contains": "went l"}},
        timeout_s=PATIENCE_S,
    )
    status, process = await evaluated(tmp_path)
    assert status == 1, process.stdout + process.stderr
    found = results(tmp_path)
    assert found["slow"]["latency_s"] > 1, "it tells how long it was waited for"
    assert found["all"]["outcome"] == found["calls"]["outcome"] == "failed"
    assert failed(found["all"]) == {check["check"] for check in found["all"]["checks"]}
    assert len(found["all"]["checks"]) == 8
    assert failed(found["calls"]) == {"tool_called", "tool_not_called"}
    assert found["asks too much"]["outcome"] == "error"
    assert "What is your name?" in found["asks too much"]["error"]
    assert "all: contains: 'Bob' is not in 'Hello Ann " in process.stdout
    assert found["slow"]["error"] == "has not ended within 3 s"
    assert [found[id]["outcome"] for id in ("rejected", "approved", "answered")] == ["passed"] * 3, process.stdout
    assert sorted(name for name, _ in runs(tmp_path / "notes")) == ["delete_file", "send_email"]
    assert "\x1b" not in process.stdout + process.stderr
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    assert [child.tag for child in cases["calls"]] == ["failure", "system-out"]
    assert "bob@example.org" in (cases["calls"][0].text or "")
    assert cases["asks too much"][0].tag == "error"
    assert cases["all"].findtext("system-out") == "Hello Ann \ufffd[31m."


async def test_a_running_server_is_asked_and_keeps_only_the_sessions_of_what_has_not_passed(tmp_path: Path) -> None:
    write_evals(
        tmp_path,
        {"id": "good", "ask": "echo: good"},
        {"id": "bad", "ask": "echo: bad", "checks": {"contains": "good"}},
        {"id": "stranger", "ask": "x", "agent": "nobody"},
        {"id": "unsendable", "ask": "x", "agent": "a" * 1_000},
    )
    async with running_server(tmp_path) as server:
        status, process = await evaluated(tmp_path, "--url", server.address, environment={"CHAT_TOKEN": "dev:alice"})
        assert status == 1, process.stdout + process.stderr
        assert [case["outcome"] for case in results(tmp_path).values()] == ["passed", "failed", "error", "error"]
        async with connect(server.address, token="dev:alice") as chat:
            [session] = [each async for each in chat.rest.sessions()]
            asked = [text_of(message.parts) async for message in chat.rest.messages(session.id)]
        assert asked[0] == "echo: bad"
    status, process = await evaluated(tmp_path, "--url", "chat.example.org")
    assert status == 1
    assert "--url: expected a URL" in process.stderr


async def test_ctrl_c_ends_it_at_once_with_a_table_of_what_has_ended(tmp_path: Path) -> None:
    write_evals(tmp_path, {"id": "quick", "ask": "echo: hi"}, {"id": "slow", "ask": "count down from 9000"})
    options = ["--json", "results.json", "--junit", "results.xml"]
    async with command("eval", "evals.yaml", *options, cwd=tmp_path, environment=QUICK) as process:
        async with asyncio.timeout(2 * PATIENCE_S):
            while "[1/2] passed quick" not in process.stderr:
                assert process.process.returncode is None, process.stderr
                await asyncio.sleep(0.05)
        assert await process.stop(signal.SIGINT) == 130
    assert process.stderr.splitlines()[-1] == "interrupted: 1/2 runs have ended, 0 not passed"
    shown = process.stdout.splitlines()
    assert [line.split()[0] for line in shown[:2]] == ["case", "quick"] and "1 passed, 0 failed" in shown[-1]
    assert "slow" not in process.stdout
    assert not list(tmp_path.glob("results.*"))
    assert "Traceback" not in process.stderr


GRAPHS = """
import asyncio

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


async def ending(state: MessagesState):
    raise KeyboardInterrupt


async def stubborn(state: MessagesState):
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


async def greeting(state: MessagesState):
    return {"messages": [AIMessage("Hello")]}


def graph(node):
    return lambda: StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


ENDING, STUBBORN, GREETING = graph(ending), graph(stubborn), graph(greeting)
"""


def write_agents(directory: Path) -> None:
    """The agents `ending`, `stubborn` and `greeting`."""
    (directory / "my_graphs.py").write_text(GRAPHS)
    names = ("ending", "stubborn", "greeting")
    entries = [{"id": name, "class_path": f"my_graphs:{name.upper()}"} for name in names]
    (directory / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": entries}))


async def test_an_agent_that_raises_keyboard_interrupt_ends_its_own_case_only(tmp_path: Path) -> None:
    write_agents(tmp_path)
    write_evals(
        tmp_path, {"id": "ending", "ask": "x", "agent": "ending"}, {"id": "hi", "ask": "x", "agent": "greeting"}
    )
    status, process = await evaluated(tmp_path, "--catalog", "agents_catalog.yaml")
    assert status == 1, process.stderr
    assert {id: case["outcome"] for id, case in results(tmp_path).items()} == {"ending": "failed", "hi": "passed"}


async def test_ctrl_c_twice_ends_it_at_once(tmp_path: Path) -> None:
    write_agents(tmp_path)
    write_evals(tmp_path, {"id": "hi", "ask": "x", "agent": "greeting"}, {"id": "s", "ask": "x", "agent": "stubborn"})
    async with command("eval", "evals.yaml", cwd=tmp_path, environment=QUICK) as process:
        async with asyncio.timeout(2 * PATIENCE_S):
            while "[1/2] passed hi" not in process.stderr:
                assert process.process.returncode is None, process.stderr
                await asyncio.sleep(0.05)
        process.process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
        assert await process.stop(signal.SIGINT) == 130
    assert process.stderr.splitlines()[-1] == "interrupted: 1/2 runs have ended, 0 not passed"
    assert process.stdout.splitlines()[1].split()[0] == "hi"


async def test_results_that_could_not_be_written_are_told_before_anything_is_asked(tmp_path: Path) -> None:
    write_evals(tmp_path, {"id": "hi", "ask": "echo: hi"})
    for file in ("nowhere/results.xml", "."):
        status, process = await evaluated(tmp_path, "--junit", file)
        assert status != 0 and f"{file}: can't be written" in process.stderr
        assert "passed" not in process.stderr and not (tmp_path / "results.json").exists()
