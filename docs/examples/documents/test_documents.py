from pathlib import Path

from agentic_backend.testing import call

FOLDER = Path(__file__).parent


def test_it_cites_its_source(agent_runner, scripted_model, monkeypatch):
    # The entry names the folder relative to the working directory.
    monkeypatch.chdir(FOLDER)
    model = scripted_model(call("search_documents", query="days of holidays"), "25 days [1].")
    run = agent_runner("handbook", "How many days of holidays?", model=model, catalog="agents_catalog.yaml")
    links = [part for message in run.messages for part in message.parts if part.type == "link"]
    assert (links[0].kind, links[0].href) == ("citation", "https://handbook.example.org/holidays.md")
    assert "25 days of holidays" in run.tool_uses[0].result
