from pathlib import Path

from agentic_backend.testing import call

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_it_tells_how_far_it_is_and_shows_parts(agent_runner, scripted_model):
    model = scripted_model(call("import_rows", count=2), "Done.")
    run = agent_runner("importer", "Import 2 rows", model=model, catalog=CATALOG)
    told = [event.data["message"] for event in run.events if event.type == "activity" and event.kind == "progress"]
    assert told == ["row 1 of 2", "row 2 of 2"]
    shown = [part.type for message in run.messages for part in message.parts]
    assert {"link", "code"} <= set(shown)
