"""Makes tools of functions: a ToolException becomes a failed result, which the model can react to."""

from collections.abc import Awaitable, Callable
from types import CodeType
from typing import Any, Literal

from langchain_core.tools import ArgsSchema, BaseTool, StructuredTool, ToolException

from agentic_backend.agents.permissions import needs

LONGEST_LINE, LONGEST_TEXT = 500, 10_000
"""Characters of a title or a query, and of a note."""

# By the function's code. Pydantic takes longer to make one than a server for all else at its start.
_arguments: dict[CodeType, ArgsSchema | None] = {}


def tool_of(
    function: Callable[..., Awaitable[Any]],
    *permissions: str,
    response_format: Literal["content", "content_and_artifact"] = "content",
) -> BaseTool:
    """A tool with the function's name and docstring, which needs `permissions`."""
    made = StructuredTool.from_function(
        coroutine=function,
        parse_docstring=True,
        args_schema=_arguments.get(function.__code__),
        handle_tool_error=True,
        response_format=response_format,
    )
    _arguments[function.__code__] = made.args_schema
    return needs(*permissions)(made) if permissions else made


def checked(name: str, text: str, longest: int = LONGEST_LINE) -> str:
    """`text` without blanks around it. Raises ToolException if nothing is left or too much."""
    text = text.strip()
    if not text:
        raise ToolException(f"The {name} is empty.")
    if len(text) > longest:
        raise ToolException(f"The {name} has more than {longest} characters.")
    return text
