from pathlib import Path

from agentic_backend.testing import call

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_the_entry_gives_the_prompt_and_the_tools(agent_runner, scripted_model):
    model = scripted_model(call("create_note", title="Milk", text="2 l"), "Noted.")
    run = agent_runner("notes", "Note: 2 l of milk", model=model, catalog=CATALOG)
    assert run.tool_called("create_note", title="Milk")
    assert "You keep the user's notes." in model.asks[0].messages[0].text
