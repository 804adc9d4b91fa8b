"""What people leave in a database that is recorded: each kind of row, exchanges in each status, and what they read."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx
import yaml
from compatibility.served import AGENTS
from compatibility.transcripts import Json
from support.approval_agents import calls
from support.attached_files import a_png, uploaded
from support.chat_client import ChatClient, chat
from support.rest_client import PREFIX, plain_http
from support.running_server import ASSISTANT

ANN, BOB = "dev:ann", "dev:bob"
FORBIDDEN = "xyzzy"
SETTINGS = {
    # Nothing of what is recorded may expire before it is read.
    "limits": {"human_timeout_s": None},
    "sharing": {"default_days": 3650, "longest_days": 3650},
    "modules": {"file": "modules.yaml"},
    "relay": {"lease_s": 1},
}
_MODULES = {
    "modules": [
        {
            "name": "words",
            "class_path": "agentic_backend.modules.words:WordFilter",
            "enabled": True,
            "settings": {"words": [FORBIDDEN]},
        }
    ]
}
_LEFT_AT = "count down slowly from 1000"


def write_files(directory: Path, settings: Json = SETTINGS) -> None:
    """The catalog, the modules and the settings of the server that is recorded, in its working directory."""
    for name, content in (
        ("agents_catalog", {"agents": [ASSISTANT, *AGENTS]}),
        ("modules", _MODULES),
        ("settings", settings),
    ):
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(content))


def http_of(address: str, token: str = ANN) -> httpx.AsyncClient:
    return plain_http(base_url=address + PREFIX, headers={"authorization": f"Bearer {token}"})


async def fill(address: str) -> Json:
    """Leave everything but exchanges that are interrupted; the ids that tests need, by what they name."""
    async with chat(address, token=ANN) as client, http_of(address) as http:
        ids = await _talk(client, http)
        ids |= await _ends(client)
        ids |= await _waits(client)
        return ids | await _attached(client, http)


async def _talk(client: ChatClient, http: httpx.AsyncClient) -> Json:
    [first, *_] = await client.ask("remember that the key is under the mat")
    talk = first["session_id"]
    for message in ("what is 12*34?", "think about what is 12*34?"):
        final = (await client.ask(message, session_id=talk))[-1]
    path = f"/sessions/{talk}"
    rank = final["messages"][-1]["rank"]
    feedback = {"rating": "up", "comment": "As I thought."}
    (await http.put(f"{path}/messages/{rank}/feedback", json=feedback)).raise_for_status()
    branch = (await http.post(f"{path}/fork", json={"rank": 2})).raise_for_status().json()["id"]
    await client.ask("write 30 words", session_id=branch)
    (await http.patch(path, json={"title": "The key", "pinned": True})).raise_for_status()
    shared = (await http.post(f"{path}/shares", json={})).raise_for_status().json()
    return {"talk": talk, "branch": branch, "share": shared["secret"]}


async def _ends(client: ChatClient) -> Json:
    await client.ask("fail after 20 tokens")
    await client.ask(f"say {FORBIDDEN}")
    await client.send({"message": "hang after 20 tokens"})
    running = await client.until("delta")
    await client.send({"type": "stop", "session_id": running["session_id"]})
    await client.until("final")
    await client.ask("go", agent_id="showing")
    return {"stopped": running["session_id"]}


async def _waits(client: ChatClient) -> Json:
    """One exchange waits for a choice, one for the second of two decisions."""
    await client.send({"message": "go", "agent_id": "choosing"})
    choosing = await client.until("awaiting_human")
    asked = calls(("send_email", {"to": "ann@example.org"}), ("delete_file", {"path": "a.txt"}))
    await client.send({"message": asked, "agent_id": "approving"})
    approving = await client.until("awaiting_human")
    [decided, _] = approving["payload"]["requests"]
    await client.send(resume(approving, decided))
    await client.until("awaiting_human")
    return {"choosing": choosing["exchange_id"], "approving": approving["exchange_id"]}


def resume(waiting: Json, *approved: Json, **answers: Any) -> Json:
    """The frame that approves these requests, or answers them."""
    decisions = [
        {"call_id": each["call_id"], "args_sha256": each["args_sha256"], "action": "approve"} for each in approved
    ]
    ids = {name: waiting[name] for name in ("session_id", "exchange_id")}
    return {"type": "human_resume", **ids, "payload": {"decisions": decisions, "answers": answers}}


async def _attached(client: ChatClient, http: httpx.AsyncClient) -> Json:
    files = [await uploaded(http, a_png(), "a.png"), await uploaded(http, b"The word is zebra.\n", "a.txt")]
    await client.ask("what is this?", attachments=[each["id"] for each in files])
    return {"attachments": [each["id"] for each in files]}


async def be_interrupted(client: ChatClient) -> str:
    """Begin an exchange that can go on from a checkpoint when its server has been killed; its id."""
    await client.send({"message": "wait 5 seconds"})
    while True:
        event = await client.receive()
        if event.get("message", {}).get("channel") == "tool_call":
            # The checkpoint follows its message.
            await asyncio.sleep(1)
            return str(event["exchange_id"])


async def be_left(client: ChatClient) -> str:
    """Begin an exchange that still counts as running in what is recorded; its id."""
    await client.send({"message": _LEFT_AT})
    event = await client.until("delta")
    # Its text so far is stored now and then.
    await asyncio.sleep(2)
    return str(event["exchange_id"])


async def reads(address: str, ids: Json) -> list[Json]:
    """What the server answers to a user who reads everything: `path`, `status`, `answer`."""
    async with http_of(address) as http:
        found: list[Json] = []

        async def read(path: str, **params: str) -> Any:
            response = await http.get(path, params=params)
            found.append(
                {"path": path, "params": params, "status": response.status_code, "answer": answer_of(response)}
            )
            return found[-1]["answer"]

        sessions = (await read("/sessions", limit="100"))["sessions"]
        for session in sorted(sessions, key=lambda each: str(each["created_at"])):
            path = f"/sessions/{session['id']}"
            await read(path)
            messages = (await read(f"{path}/messages", limit="500"))["messages"]
            for rest in ("branches", "shares", "feedback", "exchanges"):
                await read(f"{path}/{rest}")
            for exchange_id in dict.fromkeys(message["exchange_id"] for message in messages):
                await read(f"/exchanges/{exchange_id}")
            await read("/usage", session_id=session["id"])
        for attachment_id in ids["attachments"]:
            await read(f"/attachments/{attachment_id}")
        await read("/sessions", q="mat")
        await read("/search", q="mat")
        await read(f"/shares/{ids['share']}")
        return found


def answer_of(response: httpx.Response) -> Any:
    """The JSON of an answer; the Base64 text of other content."""
    if response.headers.get("content-type", "").startswith("application/json"):
        return response.json()
    return base64.b64encode(response.content).decode()
