"""What is asked on one of the doors for other products is answered on another one."""

import json
from pathlib import Path
from typing import Any

import httpx
from support import asking_agents
from support.rest_client import plain_http, rest
from support.running_server import running_server

NAME = {"id": "name", "class_path": f"{asking_agents.__name__}:name"}
AG_UI = "/ag-ui/agents/name"


def call(tool: str, **arguments: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def last_event(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    lines = (await http.post(path, json=body)).text.splitlines()
    return json.loads([line for line in lines if line.startswith("data: ")][-1].removeprefix("data: "))


async def test_a_question_of_mcp_is_answered_by_ag_ui_and_one_of_ag_ui_by_rest(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[NAME]) as server, rest(server, "dev:ann") as api:
        async with plain_http(base_url=server.address, headers={"Authorization": "Bearer dev:ann"}) as http:
            waits = (await last_event(http, "/mcp", call("name", message="go")))["result"]["structuredContent"]
            assert waits["status"] == "awaiting_human"

            thread = {"threadId": waits["session_id"], "runId": "r1", "messages": []}
            [interrupt] = (await last_event(http, AG_UI, thread))["outcome"]["interrupts"]
            answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": "Ann"}
            assert (await last_event(http, AG_UI, {**thread, "resume": [answer]}))["outcome"] == {"type": "success"}
            done = await last_event(http, "/mcp", call("get_answer", exchange_id=waits["exchange_id"]))
            assert done["result"]["structuredContent"]["answer"] == 'You said "Ann"'

            asked = {**thread, "runId": "r2", "messages": [{"id": "1", "role": "user", "content": "again"}]}
            assert (await last_event(http, AG_UI, asked))["outcome"]["type"] == "interrupt"
            session = (await api.get(f"/sessions/{waits['session_id']}")).json()
            exchange_id = session["active_exchange_id"]
            [request] = (await api.get(f"/exchanges/{exchange_id}")).json()["pending"]["requests"]
            payload = {"answers": {request["interrupt_id"]: "Bea"}}
            assert (await api.post(f"/exchanges/{exchange_id}/resume", json={"payload": payload})).status_code == 200
            shown = (await http.post(AG_UI, json={**thread, "runId": "r3"})).text
    assert 'You said \\"Bea\\"' in shown and '"outcome":{"type":"success"}' in shown
