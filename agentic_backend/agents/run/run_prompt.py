"""RunPrompt: the middleware that passes the system prompt of a run to its model.

A prompt in create_agent() is fixed for the life of the graph. The prompt of a run is composed when the run starts, and
comes with its RuntimeContext.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage

from agentic_backend.agents.runtime_context import find_context

Request = ModelRequest[Any]
Response = ModelResponse[Any]


class RunPrompt(AgentMiddleware[Any, Any, Any]):
    def __init__(self, agent_id: str, default: Callable[[], str | None]) -> None:
        """`default` returns the prompt for a graph that runs without a RuntimeContext."""
        super().__init__()
        self._agent_id = agent_id
        self._default = default

    def wrap_model_call(self, request: Request, handler: Callable[[Request], Response]) -> Response:
        return handler(self._with_prompt(request))

    async def awrap_model_call(self, request: Request, handler: Callable[[Request], Awaitable[Response]]) -> Response:
        return await handler(self._with_prompt(request))

    def _with_prompt(self, request: Request) -> Request:
        """The request with the run's prompt as its only system message; unchanged if the run has no prompt."""
        context = find_context()
        prompt = self._default() if context is None else context.system_prompts.get(self._agent_id)
        return request if prompt is None else request.override(system_message=SystemMessage(prompt))
