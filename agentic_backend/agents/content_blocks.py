"""The content of a message, however its provider sent it."""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, ContentBlock


def standard_blocks(message: BaseMessage) -> Sequence[ContentBlock] | None:
    """The content in LangChain's standard blocks; None where LangChain can't read what the provider sent."""
    try:
        return message.content_blocks
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
