"""ToolErrors: a tool that raises has failed. The model reads why and may try again; other calls keep their results.

Without it, LangChain ends the whole run for what a plain function raises.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from agentic_backend.disclosure.exception_detail import place_of, text_of, type_of
from agentic_backend.errors import AgenticError

log = logging.getLogger(__name__)

Result = ToolMessage | Command[Any]


class ToolErrors(AgentMiddleware[Any, Any, Any]):
    """The outermost one, so that others, such as one that tries again, see what a tool raises."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        try:
            return handler(request)
        except (GraphBubbleUp, AgenticError):
            # What a person is asked, and what ends the exchange.
            raise
        except Exception as error:
            return _failed(request, error)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        try:
            return await handler(request)
        except (GraphBubbleUp, AgenticError):
            raise
        except Exception as error:
            return _failed(request, error)


def _failed(request: ToolCallRequest, error: Exception) -> ToolMessage:
    """The failed result. The secrets of the run are no longer in the error's text (see ToolGuard)."""
    name = request.tool_call["name"]
    log.warning("tool failed", exc_info=error, extra={"tool": name, "where": place_of(error)})
    text = ": ".join(filter(None, [type_of(error), text_of(error)]))
    return ToolMessage(text, name=name, tool_call_id=request.tool_call["id"], status="error")
