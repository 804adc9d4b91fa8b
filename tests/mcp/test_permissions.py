"""Permissions that the settings ask for the tools of an MCP server."""

from services.mcp_echo import EchoServer
from support.mcp_agents import built, tool_user

from agentic_backend.agents.permissions import Permissions
from agentic_backend.agents.result_marks import FORBIDDEN
from agentic_backend.agents.runtime_context import make_current
from agentic_backend.agents.tool_guard import guard_tools, withheld_tools
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
