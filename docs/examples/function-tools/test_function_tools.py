from pathlib import Path

from agentic_backend.testing import Approve, call

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_the_function_runs_once_a_person_agrees(agent_runner, scripted_model):
    model = scripted_model(call("order_taxi", street="Elm Street 1"), "It comes.")
    run = agent_runner("taxi", "A taxi", model=model, catalog=CATALOG, answer=Approve())
    assert [request.name for request in run.requests] == ["order_taxi"]
    assert run.tool_uses[0].result == "A taxi for 1 comes to Elm Street 1."
