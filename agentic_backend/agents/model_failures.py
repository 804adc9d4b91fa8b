"""Finds out whether an exception of a graph started in a model call."""

from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from agentic_backend.errors import AgenticError, ModelError, ModelTimeout


class ModelFailures(BaseCallbackHandler):
    """A LangChain callback of one run. The run's recursion limit bounds its size."""

    # LangChain calls it in the model's own thread, not in an executor.
    run_inline = True

    def __init__(self) -> None:
        # The exceptions of the run's model calls.
        self._failures: list[BaseException] = []

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        self._failures.append(error)

    def typed(self, error: BaseException) -> AgenticError | None:
        """The typed error for a model failure among the causes of `error`; None if no model failed."""
        for cause in _causes(error):
            if any(_same(cause, failure) for failure in self._failures):
                if isinstance(cause, AgenticError):
                    return cause
                return ModelTimeout() if is_timeout(cause) else ModelError()
        return None


def _same(error: BaseException, failure: BaseException) -> bool:
    # asyncio replaces a TimeoutError that comes from a thread by a new one.
    return error is failure or type(error) is type(failure) is TimeoutError


def is_timeout(error: BaseException) -> bool:
    """Whether `error` is a timeout, of the provider or of a caller."""
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
