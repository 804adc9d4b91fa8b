"""RunSteps: the steps of one exchange's run, for the author who asked for it: nodes, calls of models and of tools.

A LangChain callback beside the run's own, and the observer of its checkpoints. Bounded in steps and bytes: what comes
later is counted, not kept.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp

from agentic_backend.agents.run.at_work import agent_at_work
from agentic_backend.agents.state.snapshot import Snapshot
from agentic_backend.disclosure.exception_detail import text_of, type_of
from agentic_backend.exchange.run.step_values import step_value
from agentic_backend.streaming.content.conversion import cached_input_of, model_of, usage_of
from agentic_backend.streaming.model.in_flight import Kind
from agentic_backend.streaming.model.model_calls import CallTokens, message_of
from agentic_backend.streaming.model.run_observer import RunObserver

StepKind = Literal["node", "model", "tool"]
StepState = Literal["running", "ok", "failed", "waiting", "cut"]

MOST_STEPS = 400
_MOST_CHARS = 2_000_000
# The packed states of a run that it can be run again from.
_LARGEST_STATE, _MOST_STATE_BYTES = 4 * 1024 * 1024, 16 * 1024 * 1024


@dataclass(slots=True)
class RunStep:
    """A node, or a call of a model or a tool; times are in milliseconds from the beginning of the trace."""

    id: int
    kind: StepKind
    name: str
    agent_id: str | None
    at_ms: int
    parent: int | None = None
    """The id of the step within which it ran."""
    path: Sequence[str] = ()
    """Of a node: the names of the nodes around it, and its own."""
    graph_step: int | None = None
    """Of a node: the number of its graph's step, which parallel nodes share."""
    state: StepState = "running"
    ms: int | None = None
    input: Any = field(default=None, repr=False)
    output: Any = field(default=None, repr=False)
    error: str | None = field(default=None, repr=False)
    model: str | None = None
    tokens: CallTokens | None = None


class RunSteps(RunObserver):
    run_inline = True

    def __init__(self, exchange_id: str, user_id: str, agent_id: str) -> None:
        self.exchange_id = exchange_id
        self.user_id = user_id
        self.agent_id = agent_id
        self.began_at = datetime.now(UTC)
        self.secrets: Sequence[str] = ()
        """Those that the agent could show; see step_value."""
        self.steps: list[RunStep] = []
        self.is_shortened = False
        """Whether steps, or what they got and gave, were left out for their size."""
        self._began = time.monotonic()
        self._numbering = threading.Lock()
        """Nodes that are no coroutines call tools and models in threads of their own."""
        self._within: dict[UUID, RunStep | None] = {}
        """The step that a LangChain run is, or is within."""
        self._own: dict[UUID, RunStep] = {}
        """The runs that are steps themselves."""
        self._chars = 0
        self._states: dict[int, bytes] = {}
        self._state_bytes = 0

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        return self._chars + self._state_bytes + 500 * len(self.steps)

    @property
    def replayable(self) -> frozenset[int]:
        """The steps of the agent's own graph whose state before them is kept."""
        return frozenset(self._states)

    def state_before(self, graph_step: int) -> bytes | None:
        """The packed checkpoints before a step of the agent's own graph; None if they are not kept."""
        return self._states.get(graph_step)

    def keep_state(self, graph_step: int, snapshot: Snapshot) -> None:
        """Keep the state before a step, if there is room. Takes long: call it in a thread."""
        try:
            packed = snapshot.pack()
        except (TypeError, ValueError, RuntimeError):
            # A value that can't be kept: the run can't be run again from here.
            return
        if len(packed) > _LARGEST_STATE:
            return
        self._state_bytes += len(packed) - len(self._states.get(graph_step, b""))
        self._states[graph_step] = packed
        while self._state_bytes > _MOST_STATE_BYTES:
            self._state_bytes -= len(self._states.pop(next(iter(self._states))))

    def cut(self) -> None:
        """End the run: the steps that still run were cancelled, of which LangChain tells nobody."""
        for step in self.steps:
            if step.state == "running":
                step.state, step.ms = "cut", self._now() - step.at_ms
        self._within.clear()
        self._own.clear()

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        self._begin_model(messages[0] if messages else [], run_id, parent_run_id, metadata)

    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        self._begin_model(prompts, run_id, parent_run_id, metadata)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        step, message = self._own.get(run_id), message_of(response)
        if step is not None and isinstance(message, AIMessage):
            step.model = model_of(message) or step.model
            if (usage := usage_of(message)) is not None:
                step.tokens = CallTokens(usage.input_tokens or 0, usage.output_tokens or 0, cached_input_of(message))
        self._end(run_id, message)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._fail(run_id, error)

    def _begin_model(self, given: Any, run_id: UUID, parent: UUID | None, metadata: Mapping[str, Any] | None) -> None:
        name = str((metadata or {}).get("ls_model_name") or "")
        self._begin(run_id, parent, Kind.MODEL, name, given=given)
        if (step := self._own.get(run_id)) is not None:
            step.model = name or None

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
        around = self._within.get(parent) if parent is not None else None
        if kind is Kind.OTHER or (kind is Kind.NODE and name.startswith("__")):
            self._within[run_id] = around
            return
        if len(self.steps) >= MOST_STEPS:
            self.is_shortened = True
            self._within[run_id] = None
            return
        kept = self._kept(_without_injected(given) if kind is Kind.TOOL else given)
        with self._numbering:
            step = RunStep(
                id=len(self.steps),
                kind=kind.value,
                name=name[:200],
                agent_id=agent_at_work(),
                at_ms=self._now(),
                parent=around.id if around is not None else None,
                input=kept,
            )
            self.steps.append(step)
        if kind is Kind.NODE and metadata is not None:
            step.path = _path(metadata)
            step.graph_step = metadata.get("langgraph_step")
        self._within[run_id] = self._own[run_id] = step

    def _end(self, run_id: UUID, output: Any = None) -> None:
        if (step := self._ended(run_id)) is not None:
            step.state, step.ms, step.output = "ok", self._now() - step.at_ms, self._kept(output)

    def _fail(self, run_id: UUID, error: BaseException) -> None:
        if (step := self._ended(run_id)) is None:
            return
        step.ms = self._now() - step.at_ms
        if isinstance(error, GraphBubbleUp):
            # It pauses for a person, or hands over to another graph.
            step.state = "waiting"
        else:
            step.state, step.error = "failed", f"{type_of(error)}: {text_of(error, self.secrets)}"

    def _ended(self, run_id: UUID) -> RunStep | None:
        """The step that this run is; None if it is none."""
        self._within.pop(run_id, None)
        return self._own.pop(run_id, None)

    def _kept(self, value: Any) -> Any:
        if self._chars > _MOST_CHARS:
            self.is_shortened = True
            return "[left out]"
        form, chars = step_value(value, self.secrets)
        self._chars += chars
        return form

    def _now(self) -> int:
        return round((time.monotonic() - self._began) * 1000)


def _path(metadata: Mapping[str, Any]) -> list[str]:
    """The names of the nodes around a node, and its own."""
    place = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")
    return [each.partition(":")[0] for each in place]


def _without_injected(given: Any) -> Any:
    """What a tool is given, without what LangGraph injects into its arguments, which comes from no model."""
    if not isinstance(given, Mapping):
        return given
    return {name: value for name, value in given.items() if name not in ("runtime", "state", "store", "config")}
