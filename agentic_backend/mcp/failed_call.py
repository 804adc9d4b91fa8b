"""FailedCall: the result of a call that an MCP server has not got or answered, or not with a result."""

from typing import Any, Literal

from mcp.types import CallToolResult, TextContent
from pydantic import Field
from pydantic_core import PydanticSerializationError, to_json

Reason = Literal["unavailable", "timeout", "refused", "unreadable", "unsendable"]


class FailedCall(CallToolResult):
    reason: Reason = Field(exclude=True)
    """For the log and the trace; the text is for models and people."""


def failed(reason: Reason, why: str) -> FailedCall:
    return FailedCall(content=[TextContent(type="text", text=why)], isError=True, reason=reason)


def unsendable(arguments: dict[str, Any], meta: dict[str, Any] | None) -> FailedCall | None:
    """The result of a call that can't be sent; None if it can.

    MCP's client would lose the session at it, and all calls that run there.
    """
    try:
        to_json([arguments, meta])
    except (PydanticSerializationError, ValueError):
        why = "The arguments can't be sent: half a character is among them, or they are nested too deeply."
        return failed("unsendable", why)
    return None
