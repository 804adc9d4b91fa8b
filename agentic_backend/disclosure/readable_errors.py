"""Exceptions of authors' code, made such that they can be looked at.

A class may raise wherever it is asked something, such as what caused it: then what ends, logs or tells of an exception
fails itself, Python's own `traceback` included. `readable_errors` is around the code of authors.
"""

import asyncio
from traceback import TracebackException
from types import TracebackType
from typing import Any

from agentic_backend.system_errors import (
    CAUSE,
    CONTEXT,
    MOST_CAUSES,
    cause_of,
    causes_of,
    context_of,
    members_of,
    traceback_of,
)

# Those of Python, which no class of an author's and no metaclass replaces.
_MODULE: Any = type.__dict__["__module__"]
_QUALNAME: Any = type.__dict__["__qualname__"]
_MESSAGE: Any = BaseExceptionGroup.__dict__["message"]


class UnreadableError(Exception):
    """Stands for an exception whose class raises when it is looked at. Its text is the name of that class."""


class readable_errors:
    """What is raised within can be looked at outside; what can't has an UnreadableError in its place.

    No generator: contextlib writes to the exceptions that pass through it, which a class may refuse.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None or (instead := readable(error)) is error:
            return
        behind = context_of(instead)
        try:
            raise instead
        except BaseException:
            # Without what it stands for, which Python has just put there.
            instead.__context__ = behind
            raise


def readable(error: BaseException) -> BaseException:
    """`error`, or what stands for it; what stands for its causes is put in their places in `error`."""
    # Nearly all are, and what is behind one is told with it: looking at each alone takes quadratic time.
    if _can_be_told(error) and all(map(_is_itself, causes_of(error))):
        return error
    found: dict[int, BaseException] = {}

    def looked_at(one: BaseException) -> BaseException:
        if id(one) in found:
            return found[id(one)]
        if len(found) == MOST_CAUSES:
            return UnreadableError("what is further behind")
        found[id(one)] = one
        for attribute, behind in ((CAUSE, cause_of(one)), (CONTEXT, context_of(one))):
            if behind is not None and (instead := looked_at(behind)) is not behind:
                attribute.__set__(one, instead)
        members = [looked_at(each) for each in members_of(one)]
        if any(member is not each for member, each in zip(members, members_of(one), strict=True)):
            found[id(one)] = _stand_in(one, BaseExceptionGroup(_MESSAGE.__get__(one), members))
        elif not (_can_be_told(one) and _is_itself(one)):
            kind = type(one)
            name = f"{_MODULE.__get__(kind)}.{_QUALNAME.__get__(kind)}"
            is_cancelled = issubclass(kind, asyncio.CancelledError)
            found[id(one)] = _stand_in(one, asyncio.CancelledError(name) if is_cancelled else UnreadableError(name))
        return found[id(one)]

    return looked_at(error)


def _stand_in(error: BaseException, instead: BaseException) -> BaseException:
    instead.__cause__, instead.__context__ = cause_of(error), context_of(error)
    return instead.with_traceback(traceback_of(error))


def _can_be_told(error: BaseException) -> bool:
    """Whether Python can tell of it and of what is behind it."""
    try:
        TracebackException(type(error), error, None, limit=0, lookup_lines=False)
    except BaseException:
        return False
    return True


def _is_itself(error: BaseException) -> bool:
    """Whether it says of itself what it is."""
    try:
        told = (error.__cause__, error.__context__, error.__traceback__)
        own = (cause_of(error), context_of(error), traceback_of(error))
        return error.__class__ is type(error) and all(one is other for one, other in zip(told, own, strict=True))
    except BaseException:
        return False
