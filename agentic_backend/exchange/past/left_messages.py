"""The messages that a graph left: made fit for the next exchange. Pure.

They stay as the graph left them, with two exceptions: their order is one that providers accept (see history), and they
are cut to a number of exchanges. The opening message of an exchange is recognized by its id (see to_langchain), and so
is what the server put in front of them: each run gets that anew.
"""

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agentic_backend.policy.prompt.context_window import PastExchange, Summary
from agentic_backend.streaming.content.short_forms import message_of

_STORED_ID = re.compile(r"[^:\s]+:\d{1,18}")
_NO_RESULT = "The tool gave no result."
_PROMPT_ID, _SUMMARY_ID = "agentic-prompt", "agentic-summary"

SUMMARY = "Summary of the earlier conversation, which is not shown here:\n\n{}"


def as_left(messages: Any) -> list[Any] | None:
    """The value of a graph's `messages` as a list that the next exchange can start from; None if it is no list.

    Messages in LangChain's short forms become messages, and each gets an id. Results follow their calls directly; a
    call without a result gets one that says so; a result without its call and a model message without content are left
    out.
    """
    if not isinstance(messages, list | tuple):
        return None
    left = [_message(one) for one in messages]
    return left if _is_in_order(left) else _in_order(left)


def prompt_message(text: str) -> SystemMessage:
    """What the server adds to the prompt of a graph that has its own."""
    return SystemMessage(text, id=_PROMPT_ID)


def summary_message(summary: Summary) -> HumanMessage:
    """What stands for the exchanges that were summarised; from the user, as LangChain's SummarizationMiddleware has it:
    some providers accept system messages only at the beginning.
    """
    return HumanMessage(SUMMARY.format(summary.text), id=_SUMMARY_ID)


@dataclass(frozen=True, slots=True)
class LeftMessages:
    """`front` is what the graph itself put in front of the exchanges, such as a summary of its own."""

    front: Sequence[Any]
    exchanges: Sequence[PastExchange]


def divided(messages: Sequence[Any]) -> LeftMessages:
    """The messages that a graph left, by exchange, without what the server put in front.

    `messages` are in the order of `as_left`: no person's message stands between a call and its result. If the graph
    kept no opening message, each message of a person begins an exchange.
    """
    messages = [one for one in messages if not _is_the_servers(one)]
    front = _length_of_front(messages)
    persons = [place for place in range(front, len(messages)) if isinstance(messages[place], HumanMessage)]
    begins = [place for place in persons if _is_opening(messages[place])] or persons
    # What stands before the first of them belongs to it.
    begins = begins or ([front] if front < len(messages) else [])
    starts = [front, *begins[1:], len(messages)] if begins else []
    ranks = [first_rank_of(messages[place]) for place in begins]
    exchanges = [PastExchange(rank, messages[a:b]) for rank, (a, b) in zip(ranks, pairwise(starts), strict=True)]
    return LeftMessages(messages[:front], exchanges)


def last_exchanges(messages: Sequence[Any], count: int) -> list[Any]:
    """The messages of the last `count` exchanges, after what the graph itself put in front."""
    left = divided(messages)
    if 0 < count and len(left.exchanges) <= count:
        return list(messages)
    last = left.exchanges[-count:] if count > 0 else ()
    return [*left.front, *(message for exchange in last for message in exchange.messages)]


def first_rank_of(message: Any) -> int | None:
    """The rank of the stored message that a message was made of; None if its id doesn't tell."""
    message_id = message.id if isinstance(message, BaseMessage) else None
    if message_id is None or not _STORED_ID.fullmatch(message_id):
        return None
    return int(message_id.rpartition(":")[2])


def _message(one: Any) -> Any:
    message = one if isinstance(one, BaseMessage) else message_of(one)
    if message is None:
        # Only the graph knows what it is.
        return one
    if not message.id:
        message.id = str(uuid4())
    return message


def _length_of_front(messages: Sequence[Any]) -> int:
    """The number of messages before the first one that is a model's, a tool's, or the opening of an exchange."""
    for place, message in enumerate(messages):
        if not isinstance(message, SystemMessage | HumanMessage) or _is_opening(message):
            return place
    return 0


def _is_opening(message: BaseMessage) -> bool:
    return message.id is not None and _STORED_ID.fullmatch(message.id) is not None


def _is_the_servers(message: Any) -> bool:
    # Not `isinstance`, which pydantic makes slow: each turn asks it of all messages.
    return getattr(message, "id", None) in (_PROMPT_ID, _SUMMARY_ID)


def _calls_of(message: Any) -> list[str]:
    """The ids of the calls that a provider wants a result for: also those that it could not read itself."""
    if not isinstance(message, AIMessage):
        return []
    return [call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls] if call["id"] is not None]


def _is_empty(message: Any) -> bool:
    return isinstance(message, AIMessage) and not _calls_of(message) and _has_no_content(message.content)


def _has_no_content(content: str | list[str | dict[str, Any]]) -> bool:
    return not (content.strip() if isinstance(content, str) else content)


def _is_in_order(messages: Sequence[Any]) -> bool:
    waiting: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting or _is_empty(message):
            return False
        else:
            waiting.update(_calls_of(message))
    return not waiting


def _in_order(messages: Sequence[Any]) -> list[Any]:
    # In order of arrival: a model may reuse the id of a call once the call has its result.
    results: dict[str, deque[ToolMessage]] = defaultdict(deque)
    for message in messages:
        if isinstance(message, ToolMessage):
            results[message.tool_call_id].append(message)
    ordered: list[Any] = []
    for message in messages:
        if isinstance(message, ToolMessage) or _is_empty(message):
            continue
        ordered.append(message)
        for call in _calls_of(message):
            ordered.append(results[call].popleft() if results[call] else _no_result(call))
    return ordered


def _no_result(call: str) -> ToolMessage:
    return ToolMessage(_NO_RESULT, tool_call_id=call, status="error", id=str(uuid4()))
