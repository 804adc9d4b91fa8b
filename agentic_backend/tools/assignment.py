"""The tool `assignment_info`: the assignment that the session is about, and what else it is in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from agentic_backend.agents.runtime_context import current_context
from agentic_backend.tools.tool_making import tool_of

DescribeScope = Callable[[str, str], Mapping[str, Any]]
"""Tells of a scope, such as its name and its instructions, by its kind and its id; empty if nothing is known."""


def assignment_tools(describe_scope: DescribeScope) -> Sequence[BaseTool]:
    async def assignment_info() -> dict[str, Any]:
        """Tell which assignment, task and class the conversation belongs to, with the assignment's instructions."""
        scope = current_context().scope
        if "assignment" not in scope:
            return {"assignment": None}
        return {kind: {"id": scope_id, **describe_scope(kind, scope_id)} for kind, scope_id in scope.items()}

    return [tool_of(assignment_info)]
