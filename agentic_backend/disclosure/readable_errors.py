"""Exceptions of authors' code, made such that they can be looked at.

A class may raise wherever it is asked something, such as what caused it: then what ends, logs or tells of an exception
fails itself, Python's own `traceback` included. `readable_errors` is around the code of authors.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from agentic_backend.system_errors import MOST_CAUSES, cause_of, context_of, members_of, traceback_of


class UnreadableError(Exception):
    """Stands for an exception whose class raises when it is looked at. Its text is the name of that class."""


@contextmanager
def readable_errors() -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        instead = readable(error)
        if instead is error:
            raise
        raise instead from None


def readable(error: BaseException) -> BaseException:
    """`error`, or an UnreadableError in its place; so with what caused it, which is put in its place in `error`."""
    seen: set[int] = set()

    def looked_at(one: BaseException) -> BaseException:
        if id(one) in seen or len(seen) == MOST_CAUSES:
            return one
        seen.add(id(one))
        if not _is_readable(one) or any(looked_at(each) is not each for each in members_of(one)):
            kind = type(one)
            return UnreadableError(f"{kind.__module__}.{kind.__qualname__}").with_traceback(traceback_of(one))
        cause, context = cause_of(one), context_of(one)
        if cause is not None and (instead := looked_at(cause)) is not cause:
            one.__cause__ = instead
        if context is not None and (instead := looked_at(context)) is not context:
            one.__context__ = instead
        return one

    return looked_at(error)


def _is_readable(error: BaseException) -> bool:
    try:
        told: list[object] = [error.__cause__, error.__context__, error.__traceback__]
        own: list[object] = [cause_of(error), context_of(error), traceback_of(error)]
        if isinstance(error, BaseExceptionGroup):
            told.append(error.exceptions)
            own.append(members_of(error))
        return error.__class__ is type(error) and all(one is other for one, other in zip(told, own, strict=True))
    except BaseException:
        return False
