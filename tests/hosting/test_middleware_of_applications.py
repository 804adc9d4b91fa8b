"""Middleware and hooks that applications bring for the agents whose entries speak to them."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from support.chat_client import chat
from support.running_server import FAST, running_server

from agentic_backend.application import (
    Application,
    ApplicationSettings,
    Hook,
    HookContext,
    HookResult,
    Modifications,
    Point,
    application_of,
)
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.hosting.loading import load_applications

HERE = "hosting.test_middleware_of_applications:"


class Signed(AgentMiddleware[Any, Any, Any]):
    """Answers in the place of the model, with what the application knows of the run."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        application = application_of(Signing)
        user, tuning = application.user_of_run(), application.tuning_of(request.runtime.context.agent_id)
        return ModelResponse(result=[AIMessage(f"{tuning.name} for {user.id} {sorted(user.roles)}")])


class Signing(Application):
    """Signs."""

    id = "signing"
    title = "Signing"
    version = "1"

    class Tuning(ApplicationSettings):
        name: str = "nobody"

    def middleware(self) -> Sequence[AgentMiddleware[Any, Any, Any]]:
        return [Signed()]

    def hooks(self) -> Sequence[Hook]:
        return [Hook(Point.AFTER_AI, self.heard, agents="tuned"), Hook(Point.AFTER_AI, self.own)]

    async def heard(self, context: HookContext) -> HookResult:
        assert context.response is not None
        return HookResult(modifications=Modifications(response=f"{context.response.text}, heard"))

    async def own(self, context: HookContext) -> HookResult:
        return HookResult(modifications=Modifications(response="of its own agents, which there are none of"))


class Untuned(Signing):
    Tuning = None  # type: ignore[assignment]


class Twice(Signing):
    def middleware(self) -> Sequence[AgentMiddleware[Any, Any, Any]]:
        return [Signed(), Signed()]


class Odd(Signing):
    def middleware(self) -> Sequence[AgentMiddleware[Any, Any, Any]]:
        return [Signed]  # type: ignore[list-item]


async def test_agents_whose_entries_speak_to_it_have_them_and_no_others(tmp_path: Path) -> None:
    agents = [{"id": "plain"}, {"id": "silent", "tuning": {"signing": {}}}]
    agents.append({"id": "tuned", "tuning": {"signing": {"name": "Signed"}}})
    settings = {**FAST, "applications": [{"class_path": f"{HERE}Signing"}]}
    async with running_server(tmp_path, agents=agents, settings=settings) as server, chat(server.address) as client:
        answers = {}
        for agent in agents:
            final = (await client.ask("Hello", agent_id=agent["id"]))[-1]
            answers[agent["id"]] = final["messages"][-1]["parts"][0]["text"]
    assert answers["silent"] == "nobody for developer ['admin'], heard"
    assert answers["tuned"] == "Signed for developer ['admin'], heard"
    assert not any(word in answers["plain"] for word in ("for developer", "heard", "of its own"))


@pytest.mark.parametrize(("name", "told"), [("Untuned", "a 'Tuning'"), ("Twice", "same name"), ("Odd", "a list")])
def test_odd_middleware_keeps_the_application_from_serving(name: str, told: str) -> None:
    [problem] = load_applications([ApplicationEntry(class_path=HERE + name)]).problems
    assert told in str(problem)
