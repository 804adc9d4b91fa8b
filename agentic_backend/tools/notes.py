"""The tools `create_note` and `list_notes`: each user's own notes."""

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.tools import BaseTool, InjectedToolCallId

from agentic_backend.tools.tool_making import LONGEST_TEXT, checked, tool_of
from agentic_backend.tools.user_items import UserItems

NAMESPACE = "tools.notes"


def note_tools(items: UserItems) -> Sequence[BaseTool]:
    async def create_note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> dict[str, Any]:
        """Keep a note for the user.

        Args:
            text: The note.
            call_id: The call.
        """
        return await items.add(NAMESPACE, {"text": checked("text", text, LONGEST_TEXT)}, call_id)

    async def list_notes() -> dict[str, Any]:
        """List the user's notes, the newest first."""
        return {"notes": await items.listed(NAMESPACE)}

    return [tool_of(create_note, "notes:write:self"), tool_of(list_notes, "notes:read:self")]
