"""RunObserver: the base of LangChain callbacks that follow a graph's nodes and tools: each begins, and ends or fails.

Models are left to its subclasses, which take more from them. No I/O; it may be called from several threads.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from agentic_backend.streaming.model.in_flight import Kind


class RunObserver(BaseCallbackHandler):
    def _begin(
        self,
        run_id: UUID,
        parent: UUID | None,
        kind: Kind,
        name: str = "",
        *,
        given: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """A run of LangChain's begins within `parent`: `given` are its inputs, `metadata` that of its config."""
        raise NotImplementedError

    def _end(self, run_id: UUID, output: Any = None) -> None:
        raise NotImplementedError

    def _fail(self, run_id: UUID, error: BaseException) -> None:
        raise NotImplementedError

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        # LangGraph tags the run of a node with its step.
        is_node = any(tag.startswith("graph:step:") for tag in tags or ())
        name = str((metadata or {}).get("langgraph_node", ""))
        kind = Kind.NODE if is_node else Kind.OTHER
        self._begin(run_id, parent_run_id, kind, name, given=inputs, metadata=metadata)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._fail(run_id, error)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        given = input_str if inputs is None else inputs
        self._begin(run_id, parent_run_id, Kind.TOOL, tool_name(serialized), given=given, metadata=metadata)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._fail(run_id, error)

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **_: Any,
    ) -> None:
        self._begin(run_id, parent_run_id, Kind.OTHER)

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._fail(run_id, error)


def tool_name(serialized: Mapping[str, Any] | None) -> str:
    return str((serialized or {}).get("name", ""))
