"""The standard tools by name. One object each serves all sessions: a call finds its user in its RuntimeContext."""

from collections.abc import Mapping

from langchain_core.tools import BaseTool

from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.tools.assignment import DescribeScope, assignment_tools
from agentic_backend.tools.background_result import background_tools
from agentic_backend.tools.current_time import time_tools
from agentic_backend.tools.notes import note_tools
from agentic_backend.tools.session_search import search_tools
from agentic_backend.tools.todos import todo_tools
from agentic_backend.tools.user_items import UserItems


def standard_tools(store: Store, bounds: ItemBounds, describe_scope: DescribeScope) -> Mapping[str, BaseTool]:
    """`bounds` are the most that a user may keep in the store; `describe_scope` tells of a scope by kind and id."""
    items = UserItems(store, bounds)
    tools = [
        *time_tools(),
        *todo_tools(items),
        *note_tools(items),
        *assignment_tools(describe_scope),
        *search_tools(store),
        *background_tools(store),
    ]
    return {tool.name: tool for tool in tools}
