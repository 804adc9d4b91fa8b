"""FailedCall: the result of a call that an MCP server has not answered, or not with a result."""

from typing import Literal

from mcp.types import CallToolResult, TextContent
from pydantic import Field

Reason = Literal["unavailable", "timeout", "refused", "unreadable"]


class FailedCall(CallToolResult):
    reason: Reason = Field(exclude=True)
    """For the log and the trace; the text is for models and people."""


def failed(reason: Reason, why: str) -> FailedCall:
    return FailedCall(content=[TextContent(type="text", text=why)], isError=True, reason=reason)
