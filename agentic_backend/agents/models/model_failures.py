"""Finds out whether an exception of a graph started in a model call."""

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from agentic_backend.agents.models.provider_failures import typed_failure
from agentic_backend.errors import AgenticError
from agentic_backend.system_errors import causes_of


class ModelFailures(BaseCallbackHandler):
    """A LangChain callback of one run. The run's recursion limit bounds its size."""

    # LangChain calls it in the model's own thread, not in an executor.
    run_inline = True

    def __init__(self) -> None:
        self._failures: list[tuple[BaseException, str]] = []
        """The exceptions of the run's model calls, each with the name of its model."""

    def on_llm_error(self, error: BaseException, *, run_id: UUID | None = None, **_: Any) -> None:
        self._failures.append((error, self.model_called(run_id)))

    def model_called(self, run_id: UUID | None) -> str:
        """The name of the model of a call; empty if it is not known."""
        return ""

    def typed(self, error: BaseException) -> AgenticError | None:
        """The typed error for a model failure among the causes of `error`; None if no model failed."""
        for cause in causes_of(error):
            for failure, model in self._failures:
                if _same(cause, failure):
                    return cause if isinstance(cause, AgenticError) else typed_failure(cause, model)
        return None


def _same(error: BaseException, failure: BaseException) -> bool:
    # asyncio replaces a TimeoutError that comes from a thread by a new one.
    return error is failure or type(error) is type(failure) is TimeoutError
