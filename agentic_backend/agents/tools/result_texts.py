"""The texts of tools' results, in any form in which a ToolNode returns them, and of the parts that are shown beside
them. Pure: what has changed is a copy.
"""

import json
from collections.abc import Callable, Mapping, Sequence
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
        content, artifact = _content(result, result.content, change), _artifact(result, change)
        if content == result.content and artifact == result.artifact:
            return result
        return result.model_copy(update={"content": content, "artifact": artifact})
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


def _artifact(message: ToolMessage, change: Change) -> Any:
    artifact = message.artifact
    if not isinstance(artifact, Mapping) or not isinstance(artifact.get("parts"), list):
        return artifact
    parts = [_part(message, part, change) for part in artifact["parts"]]
    return artifact if parts == artifact["parts"] else {**artifact, "parts": parts}


def _part(message: ToolMessage, part: Any, change: Change) -> Any:
    """The part with its texts, and with its data as one text of JSON; without the data if that is no longer any."""
    if not isinstance(part, dict):
        return part
    texts = {key: change(message, part[key]) for key in ("text", "code") if isinstance(part.get(key), str)}
    if part.get("type") != "custom" or not isinstance(part.get("data"), dict):
        return {**part, **texts}
    data = _changed(message, part["data"], change)
    return {"type": "text", "text": texts.get("text", "")} if data is None else {**part, **texts, "data": data}


def _changed(message: ToolMessage, data: dict[str, Any], change: Change) -> dict[str, Any] | None:
    try:
        written = json.dumps(data, ensure_ascii=False)
        changed = change(message, written)
        read = data if changed == written else json.loads(changed)
    except (ValueError, TypeError, RecursionError):
        return None
    return read if isinstance(read, dict) else None
