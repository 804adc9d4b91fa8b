"""An agent whose entry asks for an output, and models that give it late, wrong or never: it ends, typed."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from support.recorded_agents import agent_factory, agent_services, entry_of, use

from agentic_backend.errors import ModelError
from agentic_backend.experts.configured.configured_agent import ConfiguredAgent
from agentic_backend.testing import ScriptedModel, call

CITY = {"city": "Bern"}
OUTPUT = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NOW = f"{__name__}:now"


def now(city: str) -> str:
    """The time in a city."""
    return "late"


async def answered(model: ScriptedModel, tools: tuple[str, ...]) -> dict[str, Any]:
    services = agent_services(default=model)
    entry = entry_of(ConfiguredAgent, prompt="You know cities.", output=OUTPUT, tools=tools)
    agent = await use(agent_factory(services=services), entry, "s1")
    state: dict[str, Any] = await agent.get_compiled_graph().ainvoke({"messages": [("user", "Where?")]})
    return state


@pytest.mark.parametrize("tools", [(), (NOW,)])
async def test_a_model_that_answers_with_text_alone_is_asked_no_more_than_three_times(tools: tuple[str, ...]) -> None:
    model = ScriptedModel("In Bern.", "In Bern!", "Bern.", "Never said.")
    with pytest.raises(ModelError, match="in 3 tries"):
        await answered(model, tools)
    assert len(model.asks) == 3


@pytest.mark.parametrize("tools", [(), (NOW,)])
async def test_a_model_that_gives_the_output_after_all_is_heard(tools: tuple[str, ...]) -> None:
    state = await answered(ScriptedModel("In Bern.", "In Bern!", call("answer", **CITY)), tools)
    assert state["structured_response"] == CITY


async def test_calls_between_begin_no_new_count() -> None:
    model = ScriptedModel(*[call("nope"), "In Bern."] * 4)
    with pytest.raises(ModelError, match="in 3 tries"):
        await answered(model, (NOW,))
    assert len(model.asks) == 6


async def test_calls_of_other_tools_are_no_tries() -> None:
    times = [call("now", **CITY) for _ in range(5)]
    state = await answered(ScriptedModel(*times, "It is late.", call("answer", **CITY)), (NOW,))
    assert state["structured_response"] == CITY
    assert len([message for message in state["messages"] if isinstance(message, AIMessage)]) == 7
