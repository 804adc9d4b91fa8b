"""Permissions that the settings ask for the tools of an MCP server."""

import pytest
from services.mcp_echo import EchoServer
from services.mcp_raw import raw_server
from support.mcp_agents import built, tool_user

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.permissions import Permissions
from agentic_backend.agents.runtime_context import make_current
from agentic_backend.agents.tools.result_marks import FORBIDDEN
from agentic_backend.agents.tools.tool_approval import require_gates
from agentic_backend.agents.tools.tool_guard import guard_tools, withheld_tools
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp import policy_names
from agentic_backend.testing import ScriptedModel, call


async def test_a_server_s_tool_is_for_those_who_have_its_permission(open_echo: EchoServer) -> None:
    model = ScriptedModel([call("echo", text="hi"), call("count")], "done")
    settings = open_echo.settings(permissions={"cou*": ["counters:write:self"]})
    async with built(tool_user({"echo": settings}, model=model)) as agent:
        graph, context = agent.get_compiled_graph(), agent.runtime_context
        guard_tools(graph)
        context.permissions = Permissions(frozenset({"notes:*"}))
        assert withheld_tools([agent], context.permissions) == {"tool-user": frozenset({"count"})}
        make_current(context)
        state = await graph.ainvoke({"messages": [("user", "go")]}, context=context)
        _, _, echoed, counted, _ = state["messages"]
        assert (echoed.status, echoed.text) == ("success", "hi")
        assert (counted.status, counted.additional_kwargs) == ("error", {FORBIDDEN: ["counters:write:self"]})


def offering(*names: str, **settings: object) -> dict[str, object]:
    return raw_server([{"name": name} for name in names], result={"content": []}) | settings


@pytest.mark.parametrize("neighbour", [[], ["drop.all"], ["drop_all"], ["crm_drop_all"], ["drop_all", "crm_drop.all"]])
@pytest.mark.parametrize("guard", ["crm/drop.all", "crm/*", "drop.all", "drop_all", "drop*", "crm_drop_all", "crm_*"])
async def test_what_a_neighbour_offers_lowers_no_guard(guard: str, neighbour: list[str]) -> None:
    crm = offering("drop.all", permissions={guard: ["by:the:settings"]})
    servers = {"crm": crm} | ({"other": offering(*neighbour)} if neighbour else {})
    entry = AgentSettings(id="tool-user", require_approval=(guard,), permissions={guard: ("by:the:entry",)})
    may_nothing = Permissions(frozenset(), {"tool-user": entry.permissions})
    async with built(tool_user(servers)) as agent:
        assert agent.mcp is not None
        dropping = next(tool for tool in agent.mcp.get_tools() if "crm/drop.all" in str(tool.metadata))
        assert entry.requires_approval_of(dropping.name, dropping.metadata)
        lacking = may_nothing.lacking("tool-user", dropping.name, dropping.metadata)
        assert lacking == ["by:the:settings", "by:the:entry"]


@pytest.mark.parametrize("neighbour", [[], ["crm_drop_all_2"]])
@pytest.mark.parametrize("guard", ["crm_drop_all_2", "*_2"])
@pytest.mark.parametrize("key", ["require_approval", "permissions"])
async def test_a_number_names_no_tool_as_it_comes_and_goes(neighbour: list[str], guard: str, key: str) -> None:
    guards = {"require_approval": (guard,)} if key == "require_approval" else {"permissions": {guard: ("crm:all",)}}
    entry = AgentSettings.model_validate({"id": "tool-user"} | guards)
    async with built(tool_user({"crm": offering("drop.all", "drop_all"), "other": offering(*neighbour)})) as agent:
        with pytest.raises(AgentUnavailable) as caught:
            require_gates(entry, agent.get_compiled_graph())
    assert "comes and goes with other tools: name it 'crm/drop_all'" in caught.value.content


@pytest.mark.parametrize("guard", ["drop[all]", "crm/drop[all]"])
async def test_a_name_that_looks_like_a_pattern_means_its_tool(guard: str) -> None:
    entry = AgentSettings(id="tool-user", require_approval=(guard,))
    async with built(tool_user({"crm": offering("drop[all]")})) as agent:
        assert agent.mcp is not None
        [tool] = agent.mcp.get_tools()
        assert entry.requires_approval_of(tool.name, tool.metadata)


async def test_no_server_says_by_which_names_policy_means_its_tools() -> None:
    told = {"policy_names": ["harmless"], "numbered_name": "drop_all", "permissions": []}
    tool = {"name": "drop_all", "_meta": told, "annotations": told}
    async with built(tool_user({"crm": raw_server([tool], result={"content": []})})) as agent:
        assert agent.mcp is not None
        [made] = agent.mcp.get_tools()
        assert made.metadata is not None
        assert policy_names("drop_all", made.metadata) == ["crm/drop_all", "drop_all", "crm_drop_all"]
