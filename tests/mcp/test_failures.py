"""What goes wrong with a server is told to the agent in words; the agent goes on, and so does the next call."""

import asyncio
from functools import reduce
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from services.mcp_echo import Echoes, EchoServer, echo_over_stdio, echo_server
from services.mcp_raw import raw_server
from support.mcp_agents import PATIENCE_S, ToolUser, built, call, refused, told, tool_user
from support.recorded_agents import eventually

from agentic_backend.testing import ScriptedModel
from agentic_backend.testing import call as tool_call

UNSENDABLE = "The arguments can't be sent: half a character is among them, or they are nested too deeply."
AWAY = "The MCP server 'echo' is not available; it is being restarted."


async def recovered(agent: ToolUser, name: str = "echo") -> None:
    """Until the session is open again, which a call of the tool shows."""
    async with asyncio.timeout(PATIENCE_S):
        while (await call(agent, name, text="again")).status != "success":
            await asyncio.sleep(0.05)


async def test_a_tool_that_fails_says_why(open_echo: EchoServer) -> None:
    async with built(tool_user({"echo": open_echo.settings()})) as agent:
        assert "no such city" in await refused(agent, "fail", text="no such city")
        assert await told(agent, "echo", text="next") == "next"


async def test_arguments_that_the_tool_does_not_take_fail(open_echo: EchoServer) -> None:
    async with built(tool_user({"echo": open_echo.settings()})) as agent:
        assert "text" in await refused(agent, "echo", words=1)


@pytest.mark.parametrize("unsendable", ["half \ud83d a character", reduce(lambda inner, _: [inner], range(300), "x")])
async def test_arguments_that_cant_be_sent_fail_alone(shared_echo_settings: dict[str, Any], unsendable: Any) -> None:
    """Other calls run in the same session, those of other users too where they share it."""
    async with built(tool_user({"echo": shared_echo_settings})) as agent:
        assert await told(agent, "count") == "1"
        running = asyncio.create_task(call(agent, "hang"))
        await asyncio.sleep(0.2)
        assert await refused(agent, "echo", text=unsendable) == UNSENDABLE
        assert await told(agent, "count") == "2"
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})


async def test_the_agent_goes_on_after_a_failed_tool(open_echo: EchoServer) -> None:
    model = ScriptedModel([tool_call("fail", text="broken"), tool_call("echo", text="fine")], "Done.")
    async with built(tool_user({"echo": open_echo.settings()}, model=model)) as agent:
        messages = (await agent.get_compiled_graph().ainvoke({"messages": [("human", "go")]}))["messages"]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [(result.tool_call_id, result.status) for result in results] == [
        ("call-1-1-1", "error"),
        ("call-1-1-2", "success"),
    ]
    assert messages[-1].text == "Done."


async def test_a_tool_that_hangs_is_cut_and_its_server_told(echo_settings: dict[str, Any]) -> None:
    async with built(tool_user({"echo": {**echo_settings, "tool_timeout_s": 3}})) as agent:
        assert await refused(agent, "hang") == "The tool did not end within 3 seconds."
        assert await told(agent, "cancellations") == "1"
        assert await told(agent, "count") == "1", "it is the same session still"


async def test_a_call_that_is_stopped_is_cancelled_on_the_server(echo_settings: dict[str, Any]) -> None:
    async with built(tool_user({"echo": echo_settings})) as agent:
        await told(agent, "count")
        stopped = asyncio.create_task(call(agent, "hang"))
        await asyncio.sleep(0.3)
        # What answers a later call has heard of the earlier one.
        await told(agent, "echo", text="next")
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        assert await told(agent, "cancellations") == "1"
        assert await told(agent, "count") == "2"


async def test_a_process_that_crashes_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[bool] = []
    agent = tool_user({"echo": echo_over_stdio()}, observe=lambda _, up: seen.append(up))
    async with built(agent):
        first = await told(agent, "process_id")
        hanging = asyncio.create_task(call(agent, "hang"))
        await asyncio.sleep(0.2)
        assert await refused(agent, "crash") == AWAY
        assert (await hanging).text == AWAY
        assert await refused(agent, "echo", text="meanwhile") == AWAY
        await recovered(agent)
        assert await told(agent, "process_id") != first
    assert seen == [True, False, True]
    assert "MCP session lost" in caplog.text


@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
async def test_a_server_that_crashes_is_found_again(transport: str) -> None:
    with echo_server(transport, "--open") as server:
        async with built(tool_user({"echo": server.settings()})) as agent:
            assert await refused(agent, "crash") == AWAY
            assert await refused(agent, "echo", text="meanwhile") == AWAY
            server.stop()
            server.start()
            await recovered(agent)
            assert await told(agent, "count") == "1"


async def test_a_server_that_was_restarted_between_two_calls_is_found_again() -> None:
    """It knows the session no more, which only its answer to the next call tells."""
    with echo_server("streamable_http", "--open") as server:
        async with built(tool_user({"echo": server.settings()})) as agent:
            await told(agent, "count")
            server.stop()
            server.start()
            await recovered(agent)
            assert await told(agent, "count") == "1"


@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
@pytest.mark.parametrize("status", [404, 500])
async def test_a_call_that_cant_be_sent_fails_at_once_and_the_session_is_opened_again(
    transport: str, status: int, echoes: Echoes
) -> None:
    settings = echoes(transport, "--open").settings(tool_timeout_s=2 * PATIENCE_S)
    async with built(tool_user({"echo": settings})) as agent:
        await told(agent, "refuse_next", status=status)
        assert await refused(agent, "count") == AWAY
        await recovered(agent)
        assert await told(agent, "count") == "1"


async def test_a_redirect_on_the_same_host_is_followed(open_echo: EchoServer) -> None:
    # As Starlette's routes and mounts answer, with 307.
    settings = open_echo.settings(url=f"{open_echo.settings()['url']}/")
    async with built(tool_user({"echo": settings})) as agent:
        assert await told(agent, "count") == "1"
        assert await told(agent, "count") == "2"


async def test_a_session_that_can_send_nothing_more_is_opened_again(echoes: Echoes) -> None:
    async with built(tool_user({"echo": echoes("sse", "--open").settings(tool_timeout_s=1)})) as agent:
        # A redirect to nowhere.
        await told(agent, "refuse_next", status=302)
        assert await refused(agent, "count") == "The tool did not end within 1 seconds."
        await recovered(agent)
        assert await told(agent, "count") == "1"


async def test_a_call_in_a_new_session_lists_no_tools() -> None:
    pages = [{"name": "exit"}], [{"name": "heard"}]
    async with built(tool_user({"raw": raw_server(*pages, result={})})) as agent:
        assert (await told(agent, "heard")).split("\n") == ["initialize", *["tools/list"] * 2, "tools/call heard"]
        await refused(agent, "exit")
        await recovered(agent, "heard")
        heard = (await told(agent, "heard")).split("\n")
    assert heard == ["initialize", *["tools/call heard"] * 2]


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"content": 3}, "can't be read"),
        ({"content": [], "isError": True}, "The tool failed."),
    ],
)
async def test_a_result_that_is_no_result_is_a_failure(result: dict[str, Any], problem: str) -> None:
    async with built(tool_user({"raw": raw_server([{"name": "measure"}], result=result)})) as agent:
        assert problem in await refused(agent, "measure")


async def test_an_agent_closes_while_its_tools_still_run() -> None:
    agent = tool_user({"echo": echo_over_stdio()})
    before = asyncio.all_tasks()
    async with built(agent):
        hanging = asyncio.create_task(call(agent, "hang"))
        await asyncio.sleep(0.2)
        await told(agent, "echo", text="next")
    assert (await hanging).status == "error"
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_progress_becomes_custom_events_of_the_graph(open_echo: EchoServer) -> None:
    model = ScriptedModel(tool_call("report", steps=3), "Done.")
    async with built(tool_user({"echo": open_echo.settings()}, model=model)) as agent:
        stream = agent.get_compiled_graph().astream({"messages": [("human", "go")]}, stream_mode="custom")
        events = [event async for event in stream]
    assert events == [
        {"tool": "report", "call_id": "call-1-1-1", "progress": step, "total": 3, "message": f"step {step}"}
        for step in (1, 2, 3)
    ]
