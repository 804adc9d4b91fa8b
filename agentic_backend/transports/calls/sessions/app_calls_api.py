"""The call by which a document of an MCP server, in the page, calls a tool of that server (MCP Apps)."""

from typing import Annotated, Any

from pydantic import Field

from agentic_backend.auth.user import User
from agentic_backend.errors import (
    AgentNotFound,
    AgentUnavailable,
    ApprovalMismatch,
    NotFound,
    SessionCompleted,
    SessionNotFound,
)
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.sessions.app_calls import AppCall, AppCalls, NeedsApproval
from agentic_backend.transports.rest.operation import PREFIX, Operation
from agentic_backend.transports.rest.rest_input import rank_of


class CallTool(Frame):
    """A call of a tool. `approved` is the `args_sha256` of an answer that asks for an approval."""

    tool: Annotated[str, Field(min_length=1, max_length=256, examples=["get-time"])]
    arguments: dict[str, Any] = Field(default_factory=dict, repr=False)
    approved: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None


class ApprovalNeeded(Value):
    """The call has not run: the person has to approve of it first, for exactly these arguments."""

    name: str
    """The tool."""
    title: str
    """What the tool is called for people."""
    args_sha256: str
    """SHA-256 in hexadecimal digits of the arguments' canonical JSON (RFC 8785)."""


class ToolCalled(Value):
    """Either `result`, as MCP has it, or `approval`."""

    result: dict[str, Any] | None = absent()
    approval: ApprovalNeeded | None = absent()


class AppCallsApi:
    def __init__(self, calls: AppCalls) -> None:
        self._calls = calls

    def operations(self) -> list[Operation]:
        path = f"{PREFIX}/sessions/{{id}}/messages/{{rank}}/app-calls"
        errors = (SessionNotFound, SessionCompleted, NotFound, AgentNotFound, AgentUnavailable, ApprovalMismatch)
        return [Operation("POST", path, self.call_tool_for_app, errors=errors)]

    async def call_tool_for_app(self, user: User, id: str, rank: str, body: CallTool) -> ToolCalled:
        """Call a tool for the document of an MCP server that the message shows; of that server, and for apps alone."""
        made = await self._calls.call(user, id, rank_of(rank), AppCall(body.tool, body.arguments, body.approved))
        if isinstance(made, NeedsApproval):
            return ToolCalled(approval=ApprovalNeeded(name=made.name, title=made.title, args_sha256=made.args_sha256))
        return ToolCalled(result=made)
