from pathlib import Path

from agentic_backend.testing import call

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_the_leader_asks_one_after_the_other(agent_runner, scripted_model):
    model = scripted_model(
        call("ask_researcher", question="How high is Mont Blanc?"),
        "4806 m.",  # the researcher
        call("ask_writer", question="Mont Blanc is 4806 m high."),
        "At 4806 m, Mont Blanc towers.",  # the writer
        "Here is your text: At 4806 m, Mont Blanc towers.",
    )
    run = agent_runner("newsroom", "A text on Mont Blanc", model=model, catalog=CATALOG)
    assert [(use.name, use.result) for use in run.tool_uses] == [
        ("ask_researcher", "4806 m."),
        ("ask_writer", "At 4806 m, Mont Blanc towers."),
    ]
    assert run.final_text.startswith("Here is your text")
