"""The texts of tools' results, in any form in which a ToolNode returns them. Pure: what has changed is a copy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

Change = Callable[[ToolMessage, str], str]
"""Given a result and one of its texts; returns the text that it is to have instead."""


def with_texts(result: Any, change: Change) -> Any:
    """`result`, which is a ToolMessage, a Command or a list of them, with each text of its ToolMessages changed."""
    if type(result) in (list, tuple):
        return type(result)(with_texts(each, change) for each in result)
    if isinstance(result, Command):
        # A tool that hands over to another agent returns its result among the state's messages.
        return replace(result, update=_updated(result.update, lambda value: _messages(value, change)))
    if isinstance(result, ToolMessage):
        content = _content(result, result.content, change)
        return result if content == result.content else result.model_copy(update={"content": content})
    return result


def results_in(result: Any) -> Iterator[ToolMessage]:
    """The ToolMessages in what a ToolNode returns."""
    if isinstance(result, list | tuple):
        for each in result:
            yield from results_in(each)
    elif isinstance(result, Command):
        found: list[ToolMessage] = []
        _updated(result.update, lambda value: found.extend(results_in(_only_messages(value))))
        yield from found
    elif isinstance(result, ToolMessage):
        yield result


def _updated(update: Any, change: Callable[[Any], Any]) -> Any:
    """An update of a state, which is a dict or a list of pairs, with its values changed."""
    if isinstance(update, dict):
        return {key: change(value) for key, value in update.items()}
    if type(update) in (list, tuple) and all(type(pair) is tuple and len(pair) == 2 for pair in update):
        return type(update)((key, change(value)) for key, value in update)
    return update


def _only_messages(value: Any) -> list[ToolMessage]:
    values = value if isinstance(value, list | tuple) else [value]
    return [each for each in values if isinstance(each, ToolMessage)]


def _messages(value: Any, change: Change) -> Any:
    if isinstance(value, ToolMessage):
        return with_texts(value, change)
    if not isinstance(value, list | tuple):
        return value
    changed = [with_texts(each, change) if isinstance(each, ToolMessage) else each for each in value]
    return tuple(changed) if type(value) is tuple else changed if type(value) is list else value


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
