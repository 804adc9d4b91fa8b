"""Agents as tools, by MCP's client for Python."""

import asyncio
from typing import Any

import pytest
from mcp import ClientSession, McpError
from mcp.types import (
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    ElicitResult,
)
from support.approval_agents import calls
from support.chat_client import PATIENCE_S
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from transports.mcp.conftest import mcp_client

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def call(client: ClientSession, name: str, message: str, **arguments: Any) -> CallToolResult:
    return await client.call_tool(name, {"message": message, **arguments})


def facts(result: CallToolResult) -> dict[str, Any]:
    assert result.structuredContent is not None
    return result.structuredContent


def text(result: CallToolResult) -> str:
    """What a model is shown first."""
    said = result.content[0]
    assert said.type == "text"
    return said.text


async def test_the_agents_of_the_caller_are_tools(server: RunningServer) -> None:
    async with mcp_client(server, "tools") as client, rest(server, "dev:tools") as http:
        tools = (await client.list_tools()).tools
        agents = (await http.get("/agents")).json()["agents"]
    assert [tool.name for tool in tools] == [*(agent["id"] for agent in agents), "get_answer"]
    assert [tool.title for tool in tools[:-1]] == [agent["name"] for agent in agents]


async def test_a_setting_says_which_agents_are_tools(tmp_path: Any) -> None:
    settings = {"server": {"port": 0, "doors": ["mcp"], "mcp_agents": ["echo"]}}
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with mcp_client(server, "some") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "get_answer"]
            with pytest.raises(McpError, match="no such tool"):
                await call(client, "assistant", "hello")


async def test_a_call_goes_on_with_the_conversation_that_it_names(server: RunningServer) -> None:
    async with mcp_client(server, "talk") as client, rest(server, "dev:talk") as http:
        first = await call(client, "assistant", "What is 12*34?")
        assert text(first) == facts(first)["answer"] == "12*34 = 408."
        session_id = facts(first)["session_id"]
        second = await call(client, "echo", "and?", session_id=session_id)
        assert (facts(second)["session_id"], text(second)) == (session_id, "echo: and?")
        # In words too, for models that are shown no more.
        assert session_id in str(second.content[1])
        asked = [each["parts"][0]["text"] for each in await messages_of(http, session_id) if each["role"] == "user"]
    assert asked == ["What is 12*34?", "and?"]


async def test_a_call_tells_of_its_progress(server: RunningServer) -> None:
    told: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, message))

    async with mcp_client(server, "progress") as client:
        await client.call_tool("assistant", {"message": "What is 12*34?"}, progress_callback=progress)
    words = [message for _, message in told]
    assert words[0] == "begun" and "calls calculate" in words and "calculate has answered" in words
    assert [done for done, _ in told] == list(range(1, len(told) + 1))


@pytest.mark.parametrize(
    ("answer", "said"),
    [({"decision": "approve"}, "sent to ann@example.org"), ({"decision": "reject", "reason": "not her"}, "not her")],
    ids=["approve", "reject"],
)
async def test_a_person_decides_on_a_form(server: RunningServer, answer: dict[str, str], said: str) -> None:
    shown = []
    message = calls(("send_email", {"to": "ann@example.org"}))
    async with mcp_client(server, "forms", lambda form: shown.append(form) or answer) as client:
        result = await call(client, "approving", message)
    assert said in text(result) and facts(result)["status"] == "ok"
    [form] = shown
    assert "send_email" in form.message and '"ann@example.org"' in form.message


async def test_each_of_several_calls_has_its_own_form(server: RunningServer) -> None:
    answers = iter(["approve", "reject"])
    message = calls(("send_email", {"to": "ann@example.org"}), ("send_email", {"to": "bob@example.org"}))
    async with mcp_client(server, "several", lambda form: {"decision": next(answers)}) as client:
        result = await call(client, "approving", message)
    assert facts(result)["status"] == "ok" and "sent to ann@example.org" in text(result)
    assert "sent to bob@example.org" not in text(result)


ORDER = '{"day": "2026-12-24", "invoice": {"street": "Main"}}'


@pytest.mark.parametrize(
    ("agent", "given", "said"),
    [
        ("name", {"answer": "Ann"}, 'You said "Ann"'),
        ("size", {"answer": "l"}, 'You said "l"'),
        ("order", {"answer": ORDER}, '"street": "Main"'),
        ("transfer", {"answer": "go on"}, 'You said "go on"'),
    ],
)
async def test_a_question_is_answered_in_its_form(
    server: RunningServer, agent: str, given: dict[str, Any], said: str
) -> None:
    shown = []
    async with mcp_client(server, "questions", lambda form: shown.append(form) or given) as client:
        assert said in text(await call(client, agent, "go"))
    assert set(shown[0].requestedSchema["properties"]) == {"answer"}
    assert agent != "transfer" or "Transfer $500 to Bob" in shown[0].message, "nothing is decided unseen"


async def test_an_answer_of_plain_values_has_a_field_for_each(server: RunningServer) -> None:
    shown = []

    def fill_in(form: Any) -> dict[str, Any]:
        shown.append(form.requestedSchema)
        return {"price": 5, "remark": "no"}

    async with mcp_client(server, "plain", fill_in) as client:
        result = await call(client, "preferences", "go")
    assert '"price": 5' in text(result) and shown[0]["required"] == ["price", "remark"]


async def test_a_client_without_forms_is_told_what_waits(server: RunningServer) -> None:
    message = calls(("send_email", {"to": "ann@example.org"}))
    async with mcp_client(server, "words") as client, rest(server, "dev:words") as http:
        waits = await call(client, "approving", message)
        assert facts(waits)["status"] == "awaiting_human" and not waits.isError
        assert "send_email" in text(waits) and "chat page" in text(waits)
        [asked] = facts(waits)["asked"]["requests"]
        exchange_id = facts(waits)["exchange_id"]
        again = await client.call_tool("get_answer", {"exchange_id": exchange_id})
        assert facts(again)["status"] == "awaiting_human", "it still waits"
        decision = {"call_id": asked["call_id"], "args_sha256": asked["args_sha256"], "action": "approve"}
        decided = await http.post(f"/exchanges/{exchange_id}/resume", json={"payload": {"decisions": [decision]}})
        assert decided.status_code == 200
        done = await client.call_tool("get_answer", {"exchange_id": exchange_id})
    assert text(done) == "sent to ann@example.org"


async def test_a_person_may_answer_on_another_door_meanwhile(server: RunningServer) -> None:
    shown, closed = asyncio.Event(), asyncio.Event()

    async def nobody(form: object) -> dict[str, str]:
        shown.set()
        await closed.wait()
        return {"decision": "reject"}

    async with mcp_client(server, "elsewhere", nobody) as client, rest(server, "dev:elsewhere") as http:
        message = calls(("send_email", {"to": "ann@example.org"}))
        calling = asyncio.create_task(call(client, "approving", message))
        async with asyncio.timeout(PATIENCE_S):
            await shown.wait()
        [session] = (await http.get("/sessions")).json()["sessions"]
        exchange_id = session["active_exchange_id"]
        [asked] = (await http.get(f"/exchanges/{exchange_id}")).json()["pending"]["requests"]
        decision = {"call_id": asked["call_id"], "args_sha256": asked["args_sha256"], "action": "approve"}
        await http.post(f"/exchanges/{exchange_id}/resume", json={"payload": {"decisions": [decision]}})
        # This client reads on once its form is closed.
        closed.set()
        result = await calling
    assert text(result) == "sent to ann@example.org"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_question_that_nobody_answers_goes_on_waiting(server: RunningServer, action: Any) -> None:
    async with mcp_client(server, "undecided", lambda form: ElicitResult(action=action)) as client:
        waits = await call(client, "name", "go")
        assert facts(waits)["status"] == "awaiting_human" and "What is your name?" in text(waits)


async def test_a_declined_approval_is_a_rejection(server: RunningServer) -> None:
    message = calls(("send_email", {"to": "ann@example.org"}))
    async with mcp_client(server, "declining", lambda form: ElicitResult(action="decline")) as client:
        result = await call(client, "approving", message)
    assert facts(result)["status"] == "ok" and "sent" not in text(result)


async def test_an_answer_that_does_not_fit_decides_nothing(server: RunningServer) -> None:
    async with mcp_client(server, "unfit", lambda form: {"answer": "huge"}) as client:
        waits = await call(client, "size", "go")
    assert facts(waits)["status"] == "awaiting_human" and "not taken" in text(waits)


async def test_a_cancelled_call_is_stopped(server: RunningServer) -> None:
    begun = asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        begun.set()

    async with mcp_client(server, "cancelling") as client, rest(server, "dev:cancelling") as http:
        arguments = {"message": "hang after 5 tokens"}
        calling = asyncio.create_task(client.call_tool("assistant", arguments, progress_callback=progress))
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
        [session] = (await http.get("/sessions")).json()["sessions"]
        # The second request of this client: after `initialize`, and with no list of tools before.
        params = CancelledNotificationParams(requestId=1)
        await client.send_notification(ClientNotification(CancelledNotification(params=params)))
        async with asyncio.timeout(PATIENCE_S):
            while (found := (await http.get(f"/exchanges/{session['active_exchange_id']}")).json())[
                "status"
            ] != "stopped":
                await asyncio.sleep(0.05)
        assert found["status"] == "stopped"
        calling.cancel()


async def test_a_failure_and_a_refusal_are_results_that_models_read(server: RunningServer) -> None:
    async with mcp_client(server, "failing") as client:
        failed = await call(client, "raising", "hello")
        refused = await call(client, "echo", "hello", session_id="nowhere")
        wrong = await client.call_tool("echo", {"message": 5})
    assert failed.isError and facts(failed)["error"]["code"] == "internal"
    assert refused.isError and facts(refused)["error"]["code"] == "session_not_found"
    assert wrong.isError and facts(wrong)["error"]["content"].startswith("message: ")
    assert {facts(each)["status"] for each in (refused, wrong)} == {"refused"}
