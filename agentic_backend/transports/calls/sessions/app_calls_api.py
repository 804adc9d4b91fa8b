"""The calls by which a document of an MCP server, in the page, calls a tool of that server and tells models something
(MCP Apps).
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator
from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.config.setting_types import NonEmpty
from agentic_backend.errors import (
    AgentNotFound,
    AgentUnavailable,
    ApprovalRequired,
    LimitReached,
    MessageTooLarge,
    NotFound,
    SessionCompleted,
    SessionNotFound,
)
from agentic_backend.protocol.frame_rules import tells_something
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value
from agentic_backend.protocol.views import AttachmentView
from agentic_backend.sessions.app_calls import AppCall, AppCalls, AppContext
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.rest.operation import APPROVAL, PREFIX, Operation
from agentic_backend.transports.rest.rest_input import rank_of


class CallTool(Frame):
    """A call of a tool."""

    tool: Annotated[str, Field(min_length=1, max_length=256, examples=["get-time"])]
    arguments: dict[str, Any] = Field(default_factory=dict, repr=False)


class TellModels(Frame):
    """What a document tells models: texts, structured content, or both."""

    model_config = ConfigDict(json_schema_extra=tells_something)

    texts: list[NonEmpty] = Field(default_factory=list, max_length=64, repr=False, examples=[["Two are chosen."]])
    structured_content: dict[str, Any] | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _tells_something(self) -> "TellModels":
        if not self.texts and self.structured_content is None:
            raise ValueError("texts: needed where no structured_content is given")
        return self


class ToolCalled(Value):
    """The result, as MCP has it."""

    result: dict[str, Any]


class AppCallsApi:
    def __init__(self, calls: AppCalls) -> None:
        self._calls = calls

    def operations(self) -> list[Operation]:
        path = f"{PREFIX}/sessions/{{id}}/messages/{{rank}}/app-calls"
        errors = (SessionNotFound, SessionCompleted, NotFound, AgentNotFound, AgentUnavailable, ApprovalRequired)
        told = f"{PREFIX}/sessions/{{id}}/messages/{{rank}}/app-context"
        telling = (SessionNotFound, SessionCompleted, NotFound, AgentNotFound, MessageTooLarge, LimitReached)
        return [
            Operation("POST", path, self.call_tool_for_app, headers=(APPROVAL,), errors=errors),
            Operation("POST", told, self.tell_for_app, status=201, errors=telling),
        ]

    async def call_tool_for_app(self, request: Request, user: User, id: str, rank: str, body: CallTool) -> ToolCalled:
        """Call a tool for the document of an MCP server that the message shows; of that server, and for apps alone."""
        call = AppCall(body.tool, body.arguments)
        return ToolCalled(result=await self._calls.call(user, id, rank_of(rank), call, tokens_of(request, user)))

    async def tell_for_app(self, user: User, id: str, rank: str, body: TellModels) -> AttachmentView:
        """Keep what the document of an MCP server that the message shows tells, to be attached to the next ask."""
        told = AppContext(body.texts, body.structured_content)
        return (await self._calls.tell(user, id, rank_of(rank), told)).shown()
