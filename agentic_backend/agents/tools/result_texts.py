"""The texts of tools' results, in any form in which a ToolNode returns them. Pure: what has changed is a copy."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

Change = Callable[[ToolMessage, str], str]
"""Given a result and one of its texts; returns the text that it is to have instead."""


def with_texts(result: Any, change: Change) -> Any:
    """`result`, which is a ToolMessage, a Command or a list of them, with each text of its ToolMessages changed."""
    if isinstance(result, list):
        return [with_texts(each, change) for each in result]
    if isinstance(result, Command) and isinstance(result.update, dict):
        # A tool that hands over to another agent returns its result among the state's messages.
        return replace(result, update={key: _messages(value, change) for key, value in result.update.items()})
    if isinstance(result, ToolMessage):
        content = _content(result, result.content, change)
        return result if content == result.content else result.model_copy(update={"content": content})
    return result


def _messages(value: Any, change: Change) -> Any:
    if not isinstance(value, list):
        return value
    return [with_texts(each, change) if isinstance(each, ToolMessage) else each for each in value]


def _content(message: ToolMessage, content: str | Sequence[Any], change: Change) -> Any:
    if isinstance(content, str):
        return change(message, content)
    return [_block(message, block, change) for block in content]


def _block(message: ToolMessage, block: Any, change: Change) -> Any:
    if isinstance(block, str):
        return change(message, block)
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return block | {"text": change(message, block["text"])}
    return block
