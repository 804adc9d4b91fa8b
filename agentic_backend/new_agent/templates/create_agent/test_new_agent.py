"""The agent as its catalog entry says, with a model that says what the test wants."""

import asyncio
from pathlib import Path

from agentic_backend.testing import ScriptedModel, call, run_agent

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_it_counts_words_with_its_tool():
    model = ScriptedModel(call("word_count", text="one two three"), "Three.")
    asked = run_agent("new-agent", "How many words?", model=model, catalog=CATALOG)
    run = asyncio.run(asked)
    assert [(use.name, use.result) for use in run.tool_uses] == [("word_count", "3")]
    assert run.final_text == "Three."
