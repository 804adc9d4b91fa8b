from pathlib import Path

from agentic_backend.testing import call

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_it_converts(agent_runner, scripted_model):
    model = scripted_model(call("convert", amount=10, to="USD"), "12.50 dollars.")
    run = agent_runner("rates", "10 francs in dollars?", model=model, catalog=CATALOG)
    assert [use.result for use in run.tool_uses] == ["12.50 USD"]


def test_the_model_reads_why_the_tool_failed(agent_runner, scripted_model):
    model = scripted_model(call("convert", amount=10, to="XYZ"), "I don't know that currency.")
    run = agent_runner("rates", "10 francs in XYZ?", model=model, catalog=CATALOG)
    assert not run.tool_uses[0].ok
    assert model.asks[1].messages[-1].text == "There is no rate for XYZ; there are EUR, USD."
