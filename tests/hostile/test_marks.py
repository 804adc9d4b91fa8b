"""Words of many combining marks, which take long to be put in order: nobody waits for what is made of them."""

from pathlib import Path

from support.bystander import bystander
from support.marks_agent import ENTRIES
from support.rest_client import rest
from support.running_server import running_server

from agentic_backend.modules.folded_text import fold

MARKS = "\u0300\u0316"


async def test_a_trust_summary_of_many_marks_holds_nobody_up(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES, assistant=False) as server, rest(server) as http:
        session = (await http.post("/sessions", json={"agent_id": "marking"})).json()
        answered = await http.post(f"/sessions/{session['id']}/messages", json={"content": "How warm is it?"})
        assert answered.status_code == 200, answered.text
        [exchange] = (await http.get(f"/sessions/{session['id']}/exchanges")).json()["exchanges"]
        async with bystander(server.address, server.internal) as felt:
            trust = await http.get(f"/exchanges/{exchange['id']}/trust")
    [statement] = trust.json()["statements"]
    assert statement["rests_on"], statement
    assert felt.waited_at_most(1.0), felt.slowest_s


def test_a_text_of_many_marks_is_folded_soon() -> None:
    # By the square of their number it would take an hour.
    assert len(fold("a" + MARKS * 1_000_000 + " b").text) < 10
