"""Takes secrets out of what tools fail with, before an author's middleware and ToolNode tell models and people of it.

An exception stays what it is, so that code which looks at its class works: its texts are changed in place. Some can't
be changed, such as the message of a group: then the result of the call is redacted, whoever has made it.

Of a long text, such as the document that is no JSON or no UTF-8, only the beginning stays: to look through all of it
would hold up the server for seconds.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from types import MemberDescriptorType
from typing import Any

from agentic_backend.agents.tools.result_texts import with_texts
from agentic_backend.disclosure.redaction import LONGEST_TEXT, redacted, redacted_start
from agentic_backend.system_errors import causes_of


def hide_secrets(error: BaseException, secrets: Collection[str]) -> bool:
    """Redact the texts of `error`, of the members of groups and of all causes: arguments, attributes and notes.

    Returns whether none of them tells a secret any more.
    """
    is_hidden = True
    # The members of a group, which are among its arguments, before itself.
    for cause in reversed(list(causes_of(error, most=sys.maxsize))):
        # The class is an author's, and may forbid it or have a representation that fails.
        with suppress(Exception):
            arguments = tuple(_told(value, secrets) for value in cause.args)
            if any(now is not before for now, before in zip(arguments, cause.args, strict=True)):
                cause.args = arguments
        for name in _attributes_of(cause):
            with suppress(Exception):
                value = getattr(cause, name)
                if (hidden := _hidden(value, secrets)) is not value:
                    setattr(cause, name, hidden)
        with suppress(Exception):
            is_hidden &= _redacted(told := str(cause), secrets) == told
    return is_hidden


def without_secrets(result: Any, secrets: Callable[[], Collection[str]], *, may_tell: bool = False) -> Any:
    """What a ToolNode makes of a call, with the texts of failed results redacted; all of them if they `may_tell`."""
    return with_texts(
        result, lambda message, text: _redacted(text, secrets()) if may_tell or message.status == "error" else text
    )


def _attributes_of(error: BaseException) -> Iterator[str]:
    """The names of what `error` has in its dictionary and in slots, also those of Python's own classes."""
    yield from list(getattr(error, "__dict__", ()))
    for class_ in type(error).__mro__:
        yield from (name for name, of in vars(class_).items() if isinstance(of, MemberDescriptorType))


def _told(value: Any, secrets: Collection[str]) -> Any:
    """An argument, which the text of an exception tells whatever its class is; itself if its text has no secret."""
    hidden = _hidden(value, secrets)
    if hidden is not value or isinstance(value, str | bytes):
        return hidden
    return _if_changed(value, secrets)


def _hidden(value: Any, secrets: Collection[str]) -> Any:
    """`value` itself if its text has no secret. Objects stay: code looks into them, and few texts show them."""
    match value:
        case str():
            told = _redacted(value, secrets)
            return value if told == value else told
        case bytes():
            text = value.decode(errors="surrogateescape")
            told = _redacted(text, secrets)
            return value if told == text else told.encode(errors="surrogateescape")
        case Mapping() | list() | tuple() | set() | frozenset() | PurePath():
            return _if_changed(value, secrets)
    return value


def _if_changed(value: Any, secrets: Collection[str]) -> Any:
    with suppress(Exception):
        text = f"{value} {value!r}"
        if _redacted(text, secrets) == text:
            return value
    # It has a secret, or nobody can say whether it has one.
    return redacted(value, secrets)


def _redacted(text: str, secrets: Collection[str]) -> str:
    return redacted_start(text, LONGEST_TEXT, secrets)
