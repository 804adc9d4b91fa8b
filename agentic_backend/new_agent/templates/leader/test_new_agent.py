"""The leader and its crew as the catalog says, with a model that says what is wanted."""

import asyncio
from pathlib import Path

from agentic_backend.testing import ScriptedModel, call, run_agent

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_it_hands_a_question_to_whom_it_concerns():
    model = ScriptedModel(
        call("ask_new-agent-clock", question="What time is it?"),
        "It is noon.",  # what the expert says
        "Noon, says the clock.",
    )
    asked = run_agent("new-agent", "What time is it?", model=model, catalog=CATALOG)
    run = asyncio.run(asked)
    assert [use.result for use in run.tool_uses] == ["It is noon."]
    assert run.final_text == "Noon, says the clock."
