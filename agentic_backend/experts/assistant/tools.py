"""The assistant's tools. Their failures are reported to the model, so that the agent continues.

LangChain runs the synchronous functions in a thread, so they may read files.
"""

import asyncio
import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any

from langchain_core.tools import StructuredTool, ToolException

from agentic_backend.experts.assistant.arithmetic import ArithmeticProblem, evaluate, written
from agentic_backend.experts.assistant.cities import UnknownPlace, find_place
from agentic_backend.experts.documentation.document_index import SHIPPED
from agentic_backend.experts.documentation.search_tool import search_tool

MAX_WAIT_S = 60


def _tool(function: Callable[..., Any]) -> StructuredTool:
    """A tool with the function's name; its ToolException becomes a failed result."""
    is_async = inspect.iscoroutinefunction(function)
    return StructuredTool.from_function(
        func=None if is_async else function,
        coroutine=function if is_async else None,
        parse_docstring=True,
        handle_tool_error=True,
    )


@_tool
def current_time(city: str) -> str:
    """Tell the time of day in a city.

    Args:
        city: A city such as "Tokyo", or an IANA time zone such as "Europe/Paris".
    """
    try:
        place, zone = find_place(city)
    except UnknownPlace as problem:
        raise ToolException(str(problem)) from problem
    now = datetime.now(zone)
    offset = now.isoformat(timespec="minutes")[16:]
    return f"In {place} it is {now:%H:%M} on {now:%A}, {now.day} {now:%B %Y} (UTC{offset})."


@_tool
def calculate(expression: str) -> str:
    """Calculate an arithmetic expression.

    Args:
        expression: Numbers, + - * / // % ** and parentheses, such as "12*(3+4)".
    """
    try:
        return f"{expression.strip()} = {written(evaluate(expression))}"
    except ArithmeticProblem as problem:
        raise ToolException(str(problem)) from problem


@_tool
async def slow_task(seconds: float) -> str:
    """Wait, as a slow piece of work would.

    Args:
        seconds: How long, from 0 to 60.
    """
    if not 0 <= seconds <= MAX_WAIT_S:
        raise ToolException(f"A slow task takes between 0 and {MAX_WAIT_S} seconds, not {seconds:g}.")
    await asyncio.sleep(seconds)
    return f"The slow task took {seconds:g} second{'' if seconds == 1 else 's'}."


search_documents = search_tool(SHIPPED, "this server: chatting, its protocol, writing agents, running it")

TOOLS = (current_time, calculate, slow_task, search_documents)
