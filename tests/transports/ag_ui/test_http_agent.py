"""AG-UI's own client at this door, which verifies the order of the events."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from services.ag_ui_client import ag_ui_modules
from support import approval_agents, asking_agents, test_agents
from support.chat_client import PATIENCE_S
from support.rest_client import rest
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.ag_ui_client]

_PROGRAM = Path(__file__).parent / "driven.mjs"
_NODE_S = 60
USER = "dev:front"
AGENTS: list[dict[str, Any]] = [
    *test_agents.ENTRIES,
    *approval_agents.ENTRIES,
    {"id": "thinking", "class_path": "support.openai_agents:thinking"},
    {"id": "name", "class_path": f"{asking_agents.__name__}:name"},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    directory = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(approval_agents.NOTES_VARIABLE, str(directory / "notes"))
        async with running_server(directory, agents=AGENTS) as server:
            yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def got(server: RunningServer) -> Any:
    """What the client got, in one run of it."""
    node = await asyncio.create_subprocess_exec(
        "node",
        str(_PROGRAM),
        str(ag_ui_modules()),
        f"{server.address}/ag-ui/agents",
        USER,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(_NODE_S):
        out, problems = await node.communicate()
    assert node.returncode == 0, problems.decode()
    return json.loads(out)


async def test_a_run_shows_its_tools_and_its_answer(got: Any) -> None:
    user, calling, result, answer = got["sum"]
    assert (user["role"], result["role"], answer["role"]) == ("user", "tool", "assistant")
    [call] = calling["toolCalls"]
    assert call["function"]["name"] == "calculate" and "12*34" in call["function"]["arguments"]
    assert result["content"] == answer["content"].rstrip(".") == "12*34 = 408"
    events = got["sumEvents"]
    assert (events[0], events[-1]) == ("RUN_STARTED", "RUN_FINISHED") and "MESSAGES_SNAPSHOT" not in events
    assert got["sumEnded"] == "success"


async def test_a_thread_is_a_conversation(got: Any) -> None:
    assert "Ann" in got["name"]


async def test_thoughts_are_shown_as_such(got: Any) -> None:
    assert [(each["role"], each["content"]) for each in got["thoughts"][1:]] == [
        ("reasoning", "my secret"),
        ("assistant", "a secret"),
    ]


@pytest.mark.parametrize(
    ("how", "said"),
    [("approved", "sent to ann@example.org"), ("edited", "sent to bob@example.org")],
)
async def test_an_approval_is_an_interrupt_that_a_run_resumes(got: Any, how: str, said: str) -> None:
    run = got[how]
    [interrupt] = run["interrupts"]
    assert interrupt["reason"] == "tool_call" and interrupt["metadata"]["args"] == {"to": "ann@example.org"}
    calls = [call["id"] for message in run["messages"] for call in message.get("toolCalls", ())]
    assert interrupt["toolCallId"] in calls
    assert said in run["messages"][-1]["content"] and (run["ended"], run["pending"]) == ("success", 0)


async def test_a_cancelled_approval_is_a_rejection(got: Any) -> None:
    assert got["rejected"]["ended"] == "success" and "sent" not in got["rejected"]["messages"][-1]["content"]


async def test_a_question_is_an_interrupt_too(got: Any) -> None:
    [interrupt] = got["answered"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("input_required", "What is your name?")
    assert got["answered"]["messages"][-1]["content"] == 'You said "Ann"'


async def test_a_question_that_is_cancelled_ends_its_run(got: Any) -> None:
    assert (got["abandoned"]["ended"], got["abandoned"]["pending"]) == ("cancelled", 0)


async def test_a_run_that_asks_nothing_shows_the_thread_and_what_waits_in_it(got: Any) -> None:
    assert [each["role"] for each in got["again"]] == ["user", "assistant", "user", "assistant"]
    assert "Ann" in got["again"][-1]["content"]
    assert got["reopened"] == {"ended": "interrupt", "roles": ["user", "assistant"]}
    assert got["reopenedApproved"] == "sent to ann@example.org"
    assert got["nothing"] == []


async def test_an_aborted_run_is_stopped(got: Any, server: RunningServer) -> None:
    async with rest(server, USER) as http, asyncio.timeout(PATIENCE_S):
        while any("status" in each for each in (await http.get("/sessions")).json()["sessions"]):
            await asyncio.sleep(0.05)


async def test_a_failure_has_its_code_and_a_refusal_its_status(got: Any) -> None:
    assert got["failed"]["code"] == "internal"
    assert got["refused"] == {"status": 404, "code": "agent_not_found"}
