"""RequiredOutput: bounds how often a model is asked for an output that it does not give in the form of its schema.

LangChain forces the call of a tool that has the schema, and asks again, without end, a model that ignores this.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.runtime import Runtime

from agentic_backend.errors import ModelError

_MOST_TRIES = 3


class RequiredOutput(AgentMiddleware[Any, Any, Any]):
    def __init__(self, output: str) -> None:
        """`output` is what a model calls the output."""
        super().__init__()
        self._output = output

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Raises ModelError after the last try."""
        if state.get("structured_response") is not None:
            return None
        tries = self._tries(state["messages"])
        if tries == 0:
            return None
        if tries >= _MOST_TRIES:
            raise ModelError(
                f"The language model gave no answer in the form that the agent's output needs, in {tries} tries.",
                retryable=False,
            )
        # It has answered with text, which ends the run of an agent that has tools.
        return {"jump_to": "model"}

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        return self.after_model(state, runtime)

    def _tries(self, messages: Sequence[BaseMessage]) -> int:
        """How many answers without an output there were since the person's message; 0 if the last calls other tools."""
        since = list(takewhile(lambda message: not isinstance(message, HumanMessage), reversed(messages)))
        calls_others = [self._calls_others(message) for message in since if isinstance(message, AIMessage)]
        return 0 if any(calls_others[:1]) else calls_others.count(False)

    def _calls_others(self, message: AIMessage) -> bool:
        return any(call["name"] != self._output for call in message.tool_calls)
