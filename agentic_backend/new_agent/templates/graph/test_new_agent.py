"""The agent as its catalog entry says, with a model that says what the test wants."""

import asyncio
from pathlib import Path

from agentic_backend.testing import ScriptedModel, run_agent

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_it_answers_with_what_its_model_says():
    model = ScriptedModel("Hello Ann.")
    run = asyncio.run(run_agent("new-agent", "I am Ann", model=model, catalog=CATALOG))
    assert run.final_text == "Hello Ann."
    assert model.asks[0].messages[-1].text == "I am Ann"
