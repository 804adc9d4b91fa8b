"""Agents whose answers rest on tools: `looking` looks something up, fails once, and says more than it knows."""

import json
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import ToolException, tool

from agentic_backend.agents.agent_flow import CompiledGraph
from support.turn_model import Turn, TurnModel, call

ANSWER = (
    "It is 21 degrees and sunny in Paris, says the **Almanac of Weather**. "
    "\n\n| City | Wind |\n|---|---|\n| Paris | calm |\n\n"
    "You will enjoy it <img src=x onerror=\"document.title='hacked'\">!"
)


@tool(response_format="content_and_artifact")
def weather(city: str) -> tuple[str, dict[str, Any]]:
    """Tell the weather."""
    source = {"type": "link", "kind": "citation", "title": "Almanac of Weather", "href": "https://example.org/almanac"}
    return json.dumps({"city": city, "condition": "sunny", "temp_c": 21}), {"parts": [source]}


@tool
def send_postcard(to: str) -> str:
    """Send a postcard."""
    raise ToolException("There are no stamps.")


send_postcard.handle_tool_error = True


def looking() -> CompiledGraph:
    calls = [call("weather", "c1", city="Paris"), call("send_postcard", "c2", to="Ann")]
    return create_agent(TurnModel(turns=[Turn(calls=calls), Turn(ANSWER)]), [weather, send_postcard])


ENTRIES: list[dict[str, Any]] = [{"id": "looking", "class_path": "support.trust_agents:looking", "default": True}]
