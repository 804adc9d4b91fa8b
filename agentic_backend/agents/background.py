"""BackgroundTool: a tool that is acknowledged at once and goes on running in the background.

Its work is owned by the server (see BackgroundCalls), which bounds it and writes its result into the record
of the call. It may outlive the exchange: it finds its RuntimeContext, but neither the graph's state nor its stream.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from agentic_backend.agents.runtime_context import current_context
from agentic_backend.agents.tools.result_marks import BACKGROUND

Work = Callable[[], Awaitable[str]]


class BackgroundTool(BaseTool):
    """Runs `inner` in the background. In a query, which has no session to report to, it runs it at once."""

    inner: BaseTool

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # All arguments as one value: `inner` checks them once more, and may have any names.
        _, arguments = super()._to_args_and_kwargs(tool_input, tool_call_id)
        return (), {"arguments": arguments, "call_id": tool_call_id or ""}

    async def _arun(self, arguments: dict[str, Any], call_id: str) -> str | ToolMessage:
        context = current_context()
        if context.start_in_background is None or context.session_id is None or not call_id:
            return str(await self.inner.ainvoke(arguments))
        work_id = context.start_in_background(context, self.name, call_id, lambda: self._result(arguments))
        text = f"Started in the background as {work_id}. Its result is not known yet; background_result tells it later."
        return ToolMessage(text, name=self.name, tool_call_id=call_id, additional_kwargs={BACKGROUND: work_id})

    def _run(self, /, **arguments: Any) -> Any:
        raise NotImplementedError("Call background tools with ainvoke.")

    async def _result(self, arguments: dict[str, Any]) -> str:
        return str(await self.inner.ainvoke(arguments))


def background(tool: BaseTool) -> BackgroundTool:
    """Make `tool` run in the background: `@background` above `@tool`. Its failures become the call's error."""
    return BackgroundTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.args_schema,
        metadata=tool.metadata,
        handle_tool_error=True,
        inner=tool.model_copy(update={"handle_tool_error": False}),
    )
