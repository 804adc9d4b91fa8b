"""The agent as its catalog entry says: it sends nothing that a person has not approved."""

import asyncio
from pathlib import Path

from agentic_backend.testing import Approve, Reject, ScriptedModel, call, run_agent

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def greet(decision):
    model = ScriptedModel(call("send_mail", to="ann", text="Hello"), "Done.")
    options = {"model": model, "catalog": CATALOG, "answer": decision}
    return asyncio.run(run_agent("new-agent", "Greet Ann", **options))


def test_it_asks_before_it_sends():
    run = greet(Approve())
    assert [request.name for request in run.requests] == ["send_mail"]
    assert run.tool_uses[0].result == "Sent 5 characters to ann."


def test_it_does_not_send_what_was_rejected():
    run = greet(Reject("Not now."))
    assert not run.tool_uses[0].ok
