from pathlib import Path

from agentic_backend.testing import Approve, Edit, Reject, call

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_only_the_refund_waits_for_a_person(agent_runner, scripted_model):
    model = scripted_model([call("find_order", order=7), call("refund", order=7, francs=40)], "Done.")
    run = agent_runner("refunds", "Refund order 7", model=model, catalog=CATALOG, answer=Approve())
    assert [request.name for request in run.requests] == ["refund"]
    assert run.tool_uses[1].result == "Paid back 40 francs for order 7."


def test_a_person_may_change_the_amount(agent_runner, scripted_model):
    model = scripted_model(call("refund", order=7, francs=40), "Done.")
    answer = Edit({"order": 7, "francs": 20})
    run = agent_runner("refunds", "Refund order 7", model=model, catalog=CATALOG, answer=[answer])
    assert run.tool_uses[0].result.endswith("Paid back 20 francs for order 7.")


def test_nothing_is_paid_for_what_was_rejected(agent_runner, scripted_model):
    model = scripted_model(call("refund", order=7, francs=40), "Then not.")
    run = agent_runner("refunds", "Refund order 7", model=model, catalog=CATALOG, answer=Reject("Too late."))
    assert not run.tool_uses[0].ok
    assert "Too late." in model.asks[1].messages[-1].text
