"""Tools by `module:name` of their authors: a LangChain tool, or a Python function that becomes one."""

import inspect
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentic_backend.agents.code.class_path import ClassPathError, resolve
from agentic_backend.disclosure.exception_detail import text_of
from agentic_backend.disclosure.known_secrets import secrets_of
from agentic_backend.inlined_schema import usable_schema

_LONGEST_REASON = 300


def authors_tool(name: str) -> BaseTool:
    """The tool at `module:name`. A function's annotations are its arguments, its docstring is what the model reads.

    Raises ClassPathError.
    """
    return as_tool(resolve(name))


def as_tool(target: Any) -> BaseTool:
    """Raises ClassPathError."""
    if isinstance(target, BaseTool):
        _require_usable(target)
        return target
    if not callable(target) or isinstance(target, type):
        raise ClassPathError(f"expected a function or a LangChain tool, found a value of type {type(target).__name__}")
    if not (target.__doc__ or "").strip():
        raise ClassPathError("the function has no docstring, which tells the model what it does")
    _require_result(target)
    try:
        made = _tool_of(target)
        convert_to_openai_tool(made)
        return made
    # Its annotations are an author's.
    except Exception as error:
        reason = text_of(error, secrets_of())[:_LONGEST_REASON]
        raise ClassPathError(f"no tool can be made of the function: {reason}") from error


def _require_usable(tool: BaseTool) -> None:
    """Raises ClassPathError if no model can be given the arguments of a tool, or its result."""
    for name in ("func", "coroutine"):
        _require_result(getattr(tool, name, None))
    try:
        if isinstance(tool.args_schema, dict):
            usable_schema(tool.args_schema)
        # LangChain follows fewer kinds of references.
        convert_to_openai_tool(tool)
    except Exception as error:
        reason = text_of(error, secrets_of())[:_LONGEST_REASON]
        raise ClassPathError(f"no model can be given the arguments of the tool {tool.name!r}: {reason}") from error


def _require_result(function: Any) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ClassPathError("the function yields; a tool returns its whole result", function.__code__)


def _tool_of(function: Any) -> BaseTool:
    is_async = inspect.iscoroutinefunction(function)
    given = {"coroutine": function} if is_async else {"func": function}
    return StructuredTool.from_function(**given, parse_docstring=True, error_on_invalid_docstring=False)
