import json
from pathlib import Path

from agentic_backend.testing import call

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_the_answer_has_the_fields(agent_runner, scripted_model):
    model = scripted_model(call("Invoice", sender="Acme", francs=12.5))
    run = agent_runner("invoices", "Acme, 12.50 francs", model=model, catalog=CATALOG)
    [code] = [part for part in run.messages[-1].parts if part.type == "code"]
    assert json.loads(code.code) == {"sender": "Acme", "francs": 12.5}


def test_the_model_is_told_what_does_not_fit(agent_runner, scripted_model):
    model = scripted_model(call("Invoice", sender="Acme", francs=-1), call("Invoice", sender="Acme", francs=1))
    agent_runner("invoices", "Acme, 1 franc", model=model, catalog=CATALOG)
    assert "greater than or equal to 0" in model.asks[1].messages[-1].text
