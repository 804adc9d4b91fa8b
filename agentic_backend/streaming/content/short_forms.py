"""LangChain's short forms of messages, such as {"role": …, "content": …} or ("ai", …)."""

from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages


def message_of(short: Any) -> BaseMessage | None:
    """The message that `short` stands for; None if it is no form that LangChain knows: only the graph knows it."""
    try:
        [message] = convert_to_messages([short])
    except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError):
        return None
    return message
