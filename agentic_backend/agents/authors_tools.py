"""Tools by `module:name` of their authors: a LangChain tool, or a Python function that becomes one."""

import inspect
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from agentic_backend.agents.class_path import ClassPathError, resolve
from agentic_backend.exception_detail import text_of
from agentic_backend.known_secrets import secrets_of

_LONGEST_REASON = 300


def authors_tool(name: str) -> BaseTool:
    """The tool at `module:name`. A function's annotations are its arguments, its docstring is what the model reads.

    Raises ClassPathError.
    """
    return as_tool(resolve(name))


def as_tool(target: Any) -> BaseTool:
    """Raises ClassPathError."""
    if isinstance(target, BaseTool):
        return target
    if not callable(target) or isinstance(target, type):
        raise ClassPathError(f"expected a function or a LangChain tool, found a value of type {type(target).__name__}")
    if not (target.__doc__ or "").strip():
        raise ClassPathError("the function has no docstring, which tells the model what it does")
    try:
        return _tool_of(target)
    # Its annotations are an author's.
    except Exception as error:
        reason = text_of(error, secrets_of())[:_LONGEST_REASON]
        raise ClassPathError(f"no tool can be made of the function: {reason}") from error


def _tool_of(function: Any) -> BaseTool:
    is_async = inspect.iscoroutinefunction(function)
    given = {"coroutine": function} if is_async else {"func": function}
    return StructuredTool.from_function(**given, parse_docstring=True, error_on_invalid_docstring=False)
