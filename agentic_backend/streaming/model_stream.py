"""ModelStream: the tokens of every model call within a graph's run, the moment they come.

It gives what LangGraph's stream mode `messages` gives of model calls, without a queue and a wake-up of the event loop
per token, which are half of that mode's cost.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langgraph.constants import TAG_NOSTREAM

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.agents.model_failures import ModelFailures

Output = TypeVar("Output")
_Call = tuple[tuple[str, ...], dict[str, Any]]


class ModelStream(ModelFailures):
    """A callback of one run; `sink` gets its parts in the event loop's thread, in order.

    Models that can stream do so where a handler has the two `tap_output` methods.
    """

    # An error in the sink is an error of the run, not a line in LangChain's log.
    raise_error = True

    def __init__(self, sink: Callable[[StreamPart], None]) -> None:
        super().__init__()
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._calls: dict[UUID, _Call] = {}
        self._streamed: set[UUID] = set()

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Output]) -> AsyncIterator[Output]:
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Output]) -> Iterator[Output]:
        return output

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """A model call begins; one tagged `nostream` stays unseen."""
        if metadata is not None and TAG_NOSTREAM not in (tags or ()):
            namespace = tuple(str(metadata.get("langgraph_checkpoint_ns", "")).split("|"))[:-1]
            self._calls[run_id] = (namespace, metadata)

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        call = self._calls.get(run_id)
        if call is not None and isinstance(chunk, ChatGenerationChunk):
            self._streamed.add(run_id)
            self._give((call[0], "messages", (chunk.message, call[1])))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """A call has ended; the message of one that did not stream is shown as a whole."""
        call = self._calls.pop(run_id, None)
        if run_id in self._streamed:
            self._streamed.discard(run_id)
        elif call is not None and response.generations and response.generations[0]:
            generation = response.generations[0][0]
            if isinstance(generation, ChatGeneration):
                self._give((call[0], "messages", (generation.message, call[1])))

    def on_llm_error(self, error: BaseException, *, run_id: UUID | None = None, **kwargs: Any) -> None:
        super().on_llm_error(error)
        if run_id is not None:
            self._calls.pop(run_id, None)
            self._streamed.discard(run_id)

    def _give(self, part: StreamPart) -> None:
        if threading.get_ident() == self._thread:
            self._sink(part)
        else:
            # A node without an async form runs in a thread, and its model with it.
            self._loop.call_soon_threadsafe(self._sink, part)
