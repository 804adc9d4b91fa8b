"""CallLimits: counts the model calls, the tool calls and the tokens of an agent's run, and refuses what goes beyond.

The steps of its graphs LangGraph counts, within the bound that is set here. `create_agent` lets a graph take 9,999, so
that a model which always calls a tool would go on for hours. Invariant: the bound holds for every graph that a run
reaches, also for those that only the code of a node or a tool knows, so it is set in LangGraph itself.

A model call or a tool beyond the limit does not begin. Tokens are known when a call has ended; from then on nothing
begins. Usage that a provider does not report is estimated, at four characters to a token.
"""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph._internal._config import ensure_config
from langgraph.errors import GraphBubbleUp, GraphRecursionError
from langgraph.pregel import main as pregel

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.runtime_context import find_context
from agentic_backend.errors import AgenticError, LimitReached


@dataclass(slots=True)
class Spent:
    """What a run has taken so far. Its checkpoint keeps it, so that a run that continues goes on from it."""

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    paused: list[str] = field(default_factory=list)
    """The ids of the tool calls that have paused the run: they begin again when it continues."""

    def packed(self) -> Sequence[Any]:
        """Its fields in order; `Spent(*packed)` makes it again."""
        return astuple(self)


class CallLimits(BaseCallbackHandler):
    """A LangChain callback of one run of an agent. Models and tools may run in threads."""

    # LangChain calls it in the model's own thread, and passes on what it raises.
    run_inline = True
    raise_error = True

    def __init__(
        self,
        settings: AgentSettings,
        spent: Spent | None = None,
        on_exceeded: Callable[[AgenticError], None] = lambda error: None,
    ) -> None:
        """`on_exceeded` is called once, in any thread, when the first limit is exceeded."""
        self._agent = settings.name
        self._limits = settings.limits
        self._on_exceeded = on_exceeded
        self.spent = spent or Spent()
        self.exceeded: AgenticError | None = None
        """The error for the first limit that was exceeded, or for another refusal: nothing begins any more."""
        self._asked: dict[UUID, Sequence[BaseMessage]] = {}
        """What models were given whose calls have not ended, to estimate their usage; only with a limit of tokens."""
        self._tools: dict[UUID, str] = {}
        """The ids of the running tool calls. Like `spent`, they change only under the lock."""
        self._lock = threading.Lock()

    def packed(self) -> Sequence[Any]:
        """What the run has spent, for its checkpoint: a run that continues begins its running tools again."""
        with self._lock:
            return replace(self.spent, paused=[*self.spent.paused, *self._tools.values()]).packed()

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **_: Any
    ) -> None:
        """Raises LimitReached."""
        self._count("model_calls")
        if self._limits.tokens is not None:
            self._asked[run_id] = messages[0] if messages else ()

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **_: Any) -> None:
        """Raises LimitReached."""
        self.on_chat_model_start(serialized, [[HumanMessage(prompt) for prompt in prompts]], run_id=run_id)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        asked = self._asked.pop(run_id, None)
        if asked is None or self._limits.tokens is None:
            return
        tokens = _tokens_of(asked, _answer_of(response))
        with self._lock:
            self.spent.tokens += tokens
            is_exceeded = self.spent.tokens > self._limits.tokens
        if is_exceeded:
            self._exceed("tokens", f"its models used {self.spent.tokens}")

    def on_llm_error(self, error: BaseException, *, run_id: UUID | None = None, **_: Any) -> None:
        if run_id is not None:
            self._asked.pop(run_id, None)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        """Raises LimitReached."""
        if tool_call_id is not None:
            with self._lock:
                if tool_call_id in self.spent.paused:
                    # It was counted before the pause.
                    self.spent.paused.remove(tool_call_id)
                    self._tools[run_id] = tool_call_id
                    return
        self._count("tool_calls")
        if tool_call_id is not None:
            with self._lock:
                self._tools[run_id] = tool_call_id

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        with self._lock:
            self._tools.pop(run_id, None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        with self._lock:
            call_id = self._tools.pop(run_id, None)
            if call_id is not None and isinstance(error, GraphBubbleUp):
                self.spent.paused.append(call_id)

    def _count(self, name: str) -> None:
        if self.exceeded is not None:
            raise self.exceeded
        limit: int | None = getattr(self._limits, name)
        with self._lock:
            spent = getattr(self.spent, name)
            is_exceeded = limit is not None and spent >= limit
            if not is_exceeded:
                setattr(self.spent, name, spent + 1)
        if is_exceeded:
            raise self._exceed(name)

    def _exceed(self, name: str, reason: str = "") -> AgenticError:
        return self.refuse(LimitReached.of_agent(self._agent, name, getattr(self._limits, name), reason))

    def refuse(self, error: AgenticError) -> AgenticError:
        """Let nothing begin any more. Returns the first error, for which that is so."""
        if self.exceeded is None:
            self.exceeded = error
            self._on_exceeded(error)
        return self.exceeded


def bound_steps() -> None:
    """Have LangGraph let no graph of a run take more steps than its context says."""
    pregel.ensure_config = _bounded  # type: ignore[attr-defined]


def _bounded(*configs: RunnableConfig | None) -> RunnableConfig:
    """The config of a graph that starts: `ensure_config`, with a bound for what its author or LangChain allows."""
    config, context = ensure_config(*configs), find_context()
    own = config["recursion_limit"]
    if context is not None and own > context.most_steps:
        # Of its class: LangGraph passes on to subgraphs what is not its default, in place of their own.
        config["recursion_limit"] = type(own)(context.most_steps)
    return config


def steps_exceeded(agent: str, error: GraphRecursionError) -> LimitReached:
    """The typed error for a graph that came to no end within its limit, which only the text of `error` tells.

    `agent` is the name of its agent.
    """
    told = re.search(r"Recursion limit of (\d+)", str(error))
    return LimitReached.of_agent(agent, "steps", told[1] if told else "its graph", "it came to no end")


def _answer_of(response: LLMResult) -> BaseMessage:
    generation = response.generations[0][0] if response.generations and response.generations[0] else None
    if isinstance(generation, ChatGeneration):
        return generation.message
    return AIMessage(generation.text if generation is not None else "")


def _tokens_of(asked: Sequence[BaseMessage], answer: BaseMessage) -> int:
    usage = answer.usage_metadata if isinstance(answer, AIMessage) else None
    reported = usage["input_tokens"] + usage["output_tokens"] if usage else 0
    return reported or count_tokens_approximately([*asked, answer])
