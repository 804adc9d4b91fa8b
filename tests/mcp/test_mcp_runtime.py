"""Sessions with real servers over every transport: their tools, what is required of them, and their end."""

import asyncio
import sys
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from services.mcp_echo import EchoServer, echo_over_stdio
from services.mcp_raw import raw_server
from support.mcp_agents import built, call, refused, told, tool_user, tools_of
from support.processes import is_there
from support.recorded_agents import eventually

from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp import distinct_names
from agentic_backend.streaming.transcode.updates import messages_in
from agentic_backend.testing import Call, ScriptedModel


async def test_tools_of_a_server_are_called_over_every_transport(shared_echo_settings: dict[str, Any]) -> None:
    async with built(tool_user({"echo": shared_echo_settings})) as agent:
        assert {"echo", "count", "whoami"} <= set(tools_of(agent))
        assert await told(agent, "echo", text="hello") == "hello"


async def test_a_session_lasts_from_call_to_call(shared_echo_settings: dict[str, Any]) -> None:
    async with built(tool_user({"echo": shared_echo_settings})) as agent:
        assert [await told(agent, "count") for _ in range(3)] == ["1", "2", "3"]


async def test_each_agent_has_a_session_of_its_own(open_echo: EchoServer) -> None:
    async with built(tool_user({"echo": open_echo.settings()})) as ann:
        async with built(tool_user({"echo": open_echo.settings()})) as bob:
            assert [await told(ann, "count"), await told(ann, "count"), await told(bob, "count")] == ["1", "2", "1"]


async def test_calls_of_one_session_run_at_the_same_time(open_echo: EchoServer) -> None:
    async with built(tool_user({"echo": open_echo.settings(tool_timeout_s=6)})) as agent:
        hanging = asyncio.create_task(call(agent, "hang"))
        texts = [f"number {number}" for number in range(20)]
        assert await asyncio.gather(*(told(agent, "echo", text=text) for text in texts)) == texts
        assert not hanging.done()
        assert (await hanging).status == "error"


async def test_an_agent_picks_the_tools_that_it_gets(open_echo: EchoServer) -> None:
    uses = [{"id": "echo", "tools": ["whoami", "echo", "no-such-tool"], "require_tools": ["count"]}]
    async with built(tool_user({"echo": open_echo.settings()}, uses=uses)) as agent:
        assert sorted(tools_of(agent)) == ["echo", "whoami"]


async def test_tools_of_the_same_name_bear_the_ids_of_their_servers(open_echo: EchoServer) -> None:
    servers = {"near": echo_over_stdio(), "far": open_echo.settings()}
    uses = [{"id": "near", "tools": ["echo", "count"]}, {"id": "far", "tools": ["echo", "whoami"]}]
    async with built(tool_user(servers, uses=uses)) as agent:
        assert sorted(tools_of(agent)) == ["count", "far_echo", "near_echo", "whoami"]
        assert await told(agent, "near_echo", text="a") == "a"
        assert await told(agent, "far_echo", text="b") == "b"


async def test_tools_come_in_pages_and_get_names_that_every_provider_takes() -> None:
    pages = [[{"name": "files.read/all"}], [{"name": "x" * 80}, {"name": "last"}]]
    async with built(tool_user({"raw": raw_server(*pages, result={"content": []})})) as agent:
        assert tools_of(agent) == ["files_read_all", "x" * 64, "last"]
        assert await told(agent, "files_read_all", path="/") == "The tool gave no content."


async def test_tools_of_one_server_whose_names_become_the_same_get_numbers() -> None:
    long = ["x" * 64 + end for end in ("one", "two")]
    named = ["get.user", "get_user", "get/user", "crm_get_user_2", *long, "heard"]
    async with built(
        tool_user({"crm": raw_server([{"name": name} for name in named], result={"content": []})})
    ) as agent:
        names = tools_of(agent)
        assert names[:4] == ["crm_get_user", "crm_get_user_3", "crm_get_user_4", "crm_get_user_2"]
        assert names[4:] == [f"crm_{'x' * 60}", f"crm_{'x' * 58}_2", "heard"]
        for name in names[:-1]:
            await told(agent, name)
        heard = (await told(agent, "heard")).split("\n")
    assert [line for line in heard if "tools/call" in line] == [f"tools/call {name}" for name in named]


def test_many_tools_of_the_same_name_get_short_names_of_their_own() -> None:
    names = distinct_names(["x" * 64] * 1000)
    assert len(set(names)) == 1000
    assert max(map(len, names)) == 64


async def test_whoever_calls_a_tool_gets_its_result_for_that_call(open_echo: EchoServer) -> None:
    async with built(tool_user({"echo": open_echo.settings()})) as agent:
        for result in (await call(agent, "echo", text="a"), await call(agent, "fail", text="a")):
            assert result.tool_call_id == f"call-{result.name}"
        assert agent.mcp is not None
        [echo] = [tool for tool in agent.mcp.get_tools() if tool.name == "echo"]
        assert await echo.ainvoke({"text": "without a call"}) == "without a call"


async def test_arguments_may_have_any_name(open_echo: EchoServer) -> None:
    names = ["config", "runtime", "run_manager", "callbacks", "self"]
    model = ScriptedModel(Call("odd_names", {name: name.upper() for name in names}), "Done.")
    async with built(tool_user({"echo": open_echo.settings()}, model=model)) as agent:
        messages = (await agent.get_compiled_graph().ainvoke({"messages": [("human", "go")]}))["messages"]
    assert messages[-2].text == "CONFIG RUNTIME RUN_MANAGER CALLBACKS SELF"


@pytest.mark.parametrize("reads_images", [True, False])
async def test_a_model_that_reads_images_in_tool_results_gets_them(open_echo: EchoServer, reads_images: bool) -> None:
    model = ScriptedModel(profile={"image_tool_message": reads_images})
    async with built(tool_user({"echo": open_echo.settings()}, model=model)) as agent:
        result = await call(agent, "picture")
    assert [block["type"] for block in result.content_blocks] == (
        ["text", "image", "text"] if reads_images else ["text"]
    )
    assert [part["type"] for part in result.artifact["parts"]] == ["image_url", "link"]


async def test_sounds_and_links_become_texts_and_texts_alone_one_text(open_echo: EchoServer) -> None:
    """The adapter raises at sounds, makes blocks of links that providers refuse, and lists of texts."""
    async with built(tool_user({"echo": open_echo.settings()})) as agent:
        sound = await call(agent, "sound")
        assert sound.content == "listen\n[audio/wav of 6 bytes, which can't be shown]\ndone"
        shown = await call(agent, "picture")
        assert shown.content == (
            "one pixel\n[image/png of 70 bytes, shown to the user]\npixels: https://example.org/pixels"
        )


async def test_a_missing_tool_that_is_required_is_named(open_echo: EchoServer) -> None:
    uses = [{"id": "echo", "require_tools": ["echo", "translate", "sing"]}]
    agent = tool_user({"echo": open_echo.settings()}, uses=uses)
    with pytest.raises(AgentUnavailable, match="'echo' lacks the tools translate, sing"):
        await agent.async_init()


# A port that the kernel gives to nobody who asks for any.
NOBODY_THERE = {"url": "http://127.0.0.1:9/mcp"}


@pytest.mark.parametrize(
    "settings",
    [
        NOBODY_THERE,
        {**NOBODY_THERE, "transport": "sse"},
        {"transport": "stdio", "command": "/no/such/program"},
        {"transport": "stdio", "command": sys.executable, "args": ["-c", "print('no MCP')"]},
        {"transport": "stdio", "command": "sleep", "args": ["60"], "connect_timeout_s": 0.3},
    ],
    ids=["nobody listens", "nobody listens (sse)", "no such program", "no MCP server", "says nothing"],
)
async def test_a_server_that_can_not_be_reached_is_named_and_nothing_of_the_reason(settings: dict[str, Any]) -> None:
    seen: list[tuple[str, bool]] = []
    agent = tool_user({"search": settings}, observe=lambda *outcome: seen.append(outcome))
    before = asyncio.all_tasks()
    with pytest.raises(AgentUnavailable) as caught:
        await agent.async_init()
    assert caught.value.content == "The MCP server 'search' can't be reached."
    assert seen == [("search", False)]
    await agent.aclose()
    assert asyncio.all_tasks() == before


async def test_where_one_server_fails_the_others_are_closed_again() -> None:
    seen: list[tuple[str, bool]] = []
    servers = {"good": echo_over_stdio(), "bad": {"transport": "stdio", "command": "/no/such/program"}}
    agent = tool_user(servers, observe=lambda *outcome: seen.append(outcome))
    before = asyncio.all_tasks()
    with pytest.raises(AgentUnavailable, match="'bad'"):
        await agent.async_init()
    assert ("good", True) in seen
    assert asyncio.all_tasks() == before


async def test_a_process_ends_with_its_agent_though_another_task_closes_it() -> None:
    agent = tool_user({"echo": echo_over_stdio()})
    before = asyncio.all_tasks()
    await asyncio.create_task(agent.async_init())
    process_id = int(await told(agent, "process_id"))
    assert is_there(process_id)
    await asyncio.create_task(agent.aclose())
    assert not is_there(process_id)
    assert asyncio.all_tasks() == before
    assert "is not available" in await refused(agent, "echo", text="late")


async def test_a_build_that_is_cancelled_leaves_no_process_behind() -> None:
    agent = tool_user({"slow": {"transport": "stdio", "command": "sleep", "args": ["61"]}})
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await agent.async_init()
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_a_server_of_our_own_gets_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("AGENTIC_AUTH__KEYCLOAK__CLIENT_SECRET", "hush")
    async with built(tool_user({"echo": echo_over_stdio(env={"MY_OPTION": "on"})})) as agent:
        names = set((await told(agent, "environment")).split("\n"))
    assert {"PATH", "MY_OPTION"} <= names
    assert not {name for name in names if name.startswith(("OPENAI", "AGENTIC"))}


async def test_a_server_may_not_ask_the_user(open_echo: EchoServer) -> None:
    async with built(tool_user({"echo": open_echo.settings()})) as agent:
        assert "not supported" in await told(agent, "ask_the_user")


async def test_what_is_up_is_told(open_echo: EchoServer) -> None:
    seen: list[tuple[str, bool]] = []
    async with built(tool_user({"echo": open_echo.settings()}, observe=lambda *outcome: seen.append(outcome))):
        assert seen == [("echo", True)]


async def test_a_call_carries_the_key_of_its_run_and_of_no_other(open_echo: EchoServer) -> None:
    async def keys(run_id: str) -> list[str]:
        calls = [Call("idempotency_key", id="c1"), Call("idempotency_key", id="c2")]
        model = ScriptedModel(calls, "Done.")
        async with built(tool_user({"echo": open_echo.settings()}, model=model)) as agent:
            agent.runtime_context.run_id = run_id
            config = RunnableConfig(configurable={"thread_id": run_id})
            updates = [part async for part in agent.astream_updates({"messages": [("human", "go")]}, config)]
        messages = [message for _, _, update in updates for node in update.values() for message in messages_in(node)]
        results = {message.tool_call_id: message.text for message in messages if isinstance(message, ToolMessage)}
        assert results["c1"] == agent.runtime_context.idempotency_key("c1")
        return [results["c1"], results["c2"]]

    first, again, other = await keys("e1"), await keys("e1"), await keys("e2")
    assert first == again
    assert len({*first, *other}) == 4
