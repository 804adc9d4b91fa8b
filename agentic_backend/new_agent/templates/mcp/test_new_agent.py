"""The agent as its catalog entry says, with its MCP server, which is a real program."""

import asyncio
from pathlib import Path

from agentic_backend.testing import ScriptedModel, call, run_agent

FOLDER = Path(__file__).parent
FILES = {
    "catalog": FOLDER / "agents_catalog.yaml",
    "settings": FOLDER / "config" / "settings.yaml",
}


def test_it_finds_parcels_with_the_tool_of_its_server(monkeypatch):
    # The settings name the server's program relative to the working directory.
    monkeypatch.chdir(FOLDER)
    model = ScriptedModel(call("find_parcel", number="A1"), "It is in Basel.")
    run = asyncio.run(run_agent("new-agent", "Where is A1?", model=model, **FILES))
    assert [use.result for use in run.tool_uses] == ["in Basel"]
    assert run.final_text == "It is in Basel."
