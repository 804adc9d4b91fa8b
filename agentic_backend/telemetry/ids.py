"""Ids: those of the call and the exchange that a line belongs to, kept in the context in which it is logged."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_ids: ContextVar[Mapping[str, object]] = ContextVar("log_ids", default=MappingProxyType({}))


@contextmanager
def logged_with(**ids: object) -> Iterator[None]:
    """Each line that is logged inside, and in the tasks that are made there, has these ids beside those around it."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def log_ids() -> Mapping[str, object]:
    """Those of the current context."""
    return _ids.get()


def set_log_ids(ids: Mapping[str, object]) -> None:
    """Make them those of the current context, for good."""
    _ids.set(ids)


class WithIds(logging.Filter):
    """Gives each record the ids of its context, except those that it has itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in _ids.get().items():
            if getattr(record, name, None) is None:
                setattr(record, name, value)
        return True
