"""The tools `create_todo` and `list_todos`: each user's own todos."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any

from langchain_core.tools import BaseTool, InjectedToolCallId, ToolException

from agentic_backend.tools.tool_making import checked, tool_of
from agentic_backend.tools.user_items import UserItems

NAMESPACE = "tools.todos"


def todo_tools(items: UserItems) -> Sequence[BaseTool]:
    async def create_todo(
        title: str, call_id: Annotated[str, InjectedToolCallId], due: str | None = None
    ) -> dict[str, Any]:
        """Add a todo to the user's list.

        Args:
            title: What is to be done, in one line.
            call_id: The call.
            due: The day on which it is due, such as "2026-01-31".
        """
        return await items.add(NAMESPACE, {"title": checked("title", title), "due": _day(due)}, call_id)

    async def list_todos() -> dict[str, Any]:
        """List the user's todos, the newest first."""
        return {"todos": await items.listed(NAMESPACE)}

    return [tool_of(create_todo, "todos:write:self"), tool_of(list_todos, "todos:read:self")]


def _day(text: str | None) -> str | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError as error:
        raise ToolException("The day is not of the form 2026-01-31.") from error
