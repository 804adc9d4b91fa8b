"""Takes secrets out of what tools fail with, before an author's middleware and ToolNode tell models and people of it.

An exception stays what it is, so that code which looks at its class works: its texts are changed in place.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from agentic_backend.agents.result_texts import with_texts
from agentic_backend.exception_detail import causes_of
from agentic_backend.redaction import redact, redacted

# The texts of Python's own exceptions that are neither among their arguments nor in their dictionaries.
_BUILT_IN = ("strerror", "filename", "filename2", "msg", "text", "reason")


def hide_secrets(error: BaseException, secrets: Collection[str]) -> None:
    """Redact the texts of `error`, of the members of groups and of all causes: arguments, attributes and notes."""
    for cause in causes_of(error):
        # The class is an author's, and may forbid it or have a representation that fails.
        with suppress(Exception):
            if (arguments := tuple(_hidden(value, secrets) for value in cause.args)) != cause.args:
                cause.args = arguments
        for name, value in [
            *getattr(cause, "__dict__", {}).items(),
            *((name, getattr(cause, name, None)) for name in _BUILT_IN),
        ]:
            with suppress(Exception):
                if (hidden := _hidden(value, secrets)) is not value:
                    setattr(cause, name, hidden)


def without_secrets(result: Any, secrets: Callable[[], Collection[str]]) -> Any:
    """What a ToolNode makes of a call, with the texts of failed results redacted."""
    return with_texts(result, lambda message, text: redact(text, secrets()) if message.status == "error" else text)


def _hidden(value: Any, secrets: Collection[str]) -> Any:
    """`value` itself if its text has no secret."""
    if not isinstance(value, str | bytes | Mapping | list | tuple | set | frozenset):
        return value
    text = value if isinstance(value, str) else repr(value)
    told = redact(text, secrets)
    if told == text:
        return value
    return told if isinstance(value, str) else redacted(value, secrets)
