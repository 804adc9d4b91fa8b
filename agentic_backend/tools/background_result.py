"""The tool `background_result`: how a call went that was acknowledged and ran on in the background."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool, ToolException

from agentic_backend.agents.runtime_context import current_context
from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Store
from agentic_backend.stores.lineage import spans_of
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery
from agentic_backend.tools.tool_making import checked, tool_of


def background_tools(store: Store) -> Sequence[BaseTool]:
    async def background_result(id: str) -> dict[str, Any]:
        """Tell the result of a tool that was started in the background in this conversation.

        Args:
            id: The id that was given when it was started.
        """
        exchange_id, _, call_id = checked("id", id).partition(".")
        where = {"exchange_id": exchange_id, "call_id": call_id}
        try:
            page = await store.trail(TrailQuery(ToolCallRecord, where, limit=1))
            session = await store.get_session(current_context().thread_id)
        except StoreUnavailable as error:
            raise ToolException(error.content) from error
        # A branch may tell what was started before it was forked.
        of_session = {span.session_id for span in spans_of(session)} if session is not None else set()
        if not page.records or page.records[0].session_id not in of_session:
            raise ToolException("Nothing was started in the background under this id in this conversation.")
        record = page.records[0]
        if record.state != "pending":
            return {"state": record.state, "result": record.result, "error": record.error}
        return {"state": "pending"}

    return [tool_of(background_result)]
