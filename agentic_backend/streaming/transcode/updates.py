"""Extracts the messages from a node's update, in any form that LangGraph accepts."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langgraph.types import Overwrite

from agentic_backend.streaming.content.short_forms import message_of

log = logging.getLogger(__name__)


def messages_in(update: Any) -> Iterator[BaseMessage]:
    """The messages that `update` (a mapping, or several of them) writes to the `messages` channel.

    What a task of the functional API returns is an update too: messages count.

    A message without an id gets one here, before the channel's reducer assigns one, so that it is recognized when a
    parent returns it again. Only messages in a short form stay without an id.
    """
    if isinstance(update, BaseMessage):
        update = {"messages": [update]}
    if isinstance(update, list | tuple):
        for one in update:
            yield from messages_in(one)
    if not isinstance(update, Mapping):
        return
    messages = update.get("messages")
    if isinstance(messages, Overwrite):
        messages = messages.value
    elif isinstance(messages, Mapping):
        messages = messages.get("__overwrite__", messages)
    if messages is None:
        return
    for message in messages if isinstance(messages, list) else [messages]:
        if isinstance(message, BaseMessage):
            message.id = message.id or str(uuid4())
            yield message
        else:
            yield from _converted(message)


def written_to(update: Any, channel: str) -> Iterator[Any]:
    """The values that `update` (a mapping, or several of them) writes to `channel`, in order."""
    if isinstance(update, list | tuple):
        for one in update:
            yield from written_to(one, channel)
    elif isinstance(update, Mapping) and channel in update:
        yield update[channel]


def _converted(message: Any) -> list[BaseMessage]:
    found = message_of(message)
    if found is None:
        log.warning("node update has an unknown message", extra={"form": type(message).__name__})
    return [] if found is None else [found]
