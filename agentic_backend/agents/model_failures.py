"""Tells whether an exception that came out of a graph began in a model call."""

from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from agentic_backend.errors import AgenticError, ModelError, ModelTimeout


class ModelFailures(BaseCallbackHandler):
    """A callback of one run. Its size is bounded by the run's own recursion limit."""

    # Called where the model runs, not in a thread of an executor.
    run_inline = True

    def __init__(self) -> None:
        self._failures: list[BaseException] = []

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        self._failures.append(error)

    def typed(self, error: BaseException) -> AgenticError | None:
        """The typed error for a failure of a model within `error`; None where no model failed."""
        for cause in _causes(error):
            if any(_same(cause, failure) for failure in self._failures):
                if isinstance(cause, AgenticError):
                    return cause
                return ModelTimeout() if is_timeout(cause) else ModelError()
        return None


def _same(error: BaseException, failure: BaseException) -> bool:
    # asyncio makes a new TimeoutError of one that comes out of a thread.
    return error is failure or type(error) is type(failure) is TimeoutError


def is_timeout(error: BaseException) -> bool:
    """Whether something took too long: the provider, or what waited for it."""
    # Providers' own timeout errors (openai.APITimeoutError, httpx.ReadTimeout, …) share no base class.
    return isinstance(error, TimeoutError) or "Timeout" in type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions
        waiting += [cause for cause in (current.__cause__, current.__context__) if cause is not None]
