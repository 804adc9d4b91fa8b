"""The agent as its catalog entry says, with a model that says what the test wants."""

import asyncio
from pathlib import Path

from agentic_backend.testing import ScriptedModel, call, run_agent

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_it_keeps_notes():
    model = ScriptedModel(call("create_note", title="Milk", text="2 l"), "Noted.")
    asked = run_agent("new-agent", "Note: 2 l of milk", model=model, catalog=CATALOG)
    run = asyncio.run(asked)
    assert run.tool_called("create_note", title="Milk")
    assert run.final_text == "Noted."
