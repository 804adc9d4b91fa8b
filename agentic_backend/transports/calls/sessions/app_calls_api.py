"""The call by which a document of an MCP server, in the page, calls a tool of that server (MCP Apps)."""

from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.errors import (
    AgentNotFound,
    AgentUnavailable,
    ApprovalRequired,
    NotFound,
    SessionCompleted,
    SessionNotFound,
)
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value
from agentic_backend.sessions.app_calls import AppCall, AppCalls
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.rest.operation import APPROVAL, PREFIX, Operation
from agentic_backend.transports.rest.rest_input import rank_of


class CallTool(Frame):
    """A call of a tool."""

    tool: Annotated[str, Field(min_length=1, max_length=256, examples=["get-time"])]
    arguments: dict[str, Any] = Field(default_factory=dict, repr=False)


class ToolCalled(Value):
    """The result, as MCP has it."""

    result: dict[str, Any]


class AppCallsApi:
    def __init__(self, calls: AppCalls) -> None:
        self._calls = calls

    def operations(self) -> list[Operation]:
        path = f"{PREFIX}/sessions/{{id}}/messages/{{rank}}/app-calls"
        errors = (SessionNotFound, SessionCompleted, NotFound, AgentNotFound, AgentUnavailable, ApprovalRequired)
        return [Operation("POST", path, self.call_tool_for_app, headers=(APPROVAL,), errors=errors)]

    async def call_tool_for_app(self, request: Request, user: User, id: str, rank: str, body: CallTool) -> ToolCalled:
        """Call a tool for the document of an MCP server that the message shows; of that server, and for apps alone."""
        call = AppCall(body.tool, body.arguments)
        return ToolCalled(result=await self._calls.call(user, id, rank_of(rank), call, tokens_of(request, user)))
