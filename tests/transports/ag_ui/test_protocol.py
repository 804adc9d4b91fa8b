"""What this door makes of bodies that AG-UI's client would not send, and of what is another user's."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from support import asking_agents, test_agents
from support.rest_client import messages_of, plain_http, rest
from support.running_server import RunningServer, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = {"id": "name", "class_path": f"{asking_agents.__name__}:name"}
HELLO = [{"id": "1", "role": "user", "content": "hello"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    agents = [*test_agents.ENTRIES, NAME]
    async with running_server(tmp_path_factory.mktemp("server"), agents=agents) as server:
        yield server


async def run(server: RunningServer, user: str, agent: str, **body: Any) -> tuple[int, Any]:
    """The status, and the events or the error's words."""
    body = {"threadId": "t", "runId": "r", "messages": HELLO, **body}
    async with plain_http(base_url=server.address, headers={"Authorization": f"Bearer dev:{user}"}) as http:
        answer = await http.post(f"/ag-ui/agents/{agent}", json=body)
    if answer.status_code != 200:
        return answer.status_code, answer.json()["error"]["content"]
    return 200, [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"threadId": ""}, "threadId: "),
        ({"threadId": "x" * 129}, "threadId: "),
        ({"runId": 5}, "runId: "),
        ({"messages": {}}, "messages: "),
        ({"messages": [{"role": "nobody"}]}, "messages.0.role: "),
        ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content: "),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "messages: "),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages.0.content.0: "),
        ({"messages": [{"role": "system", "content": [1]}, *HELLO]}, "messages.0.content: "),
        ({"messages": [*HELLO] * 2_001}, "messages: "),
        ({"messages": [{"role": "user", "content": "x" * 500_000}]}, "messages: "),
        ({"forwardedProps": {"password": "x"}}, "forwardedProps: "),
        ({"forwardedProps": []}, "forwardedProps: "),
        ({"resume": [{"interruptId": "x", "status": "maybe"}]}, "resume.0.status: "),
        ({"context": [{"description": "d"}]}, "context.0.value: "),
    ],
)
async def test_a_wrong_field_is_named(server: RunningServer, body: dict[str, Any], named: str) -> None:
    status, content = await run(server, "odd", "echo", **body)
    assert status in (400, 413) and content.startswith(named)


async def test_what_front_ends_send_beside_that_is_left_alone(server: RunningServer) -> None:
    tool = {"name": "colour", "description": "", "parameters": {}}
    status, events = await run(server, "more", "echo", tools=[tool], state={"a": None}, parentRunId="p", other=1)
    assert status == 200 and events[-1]["outcome"] == {"type": "success"}


async def test_values_within_values_are_no_error_of_the_server(server: RunningServer) -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    told = [{"id": "0", "role": "assistant", "content": deep}, *HELLO]
    assert await run(server, "deep", "echo", messages=told) == (400, "messages.0: nested more than 100 levels deep")
    assert (await run(server, "deep", "echo", forwardedProps={"a": deep}))[0] == 400
    assert (await run(server, "deep", "echo", messages=[{"id": "0", "role": "user", "content": deep}]))[0] == 400


async def test_a_file_goes_by_the_id_of_its_upload(server: RunningServer) -> None:
    async with rest(server, "dev:files") as http:
        uploaded = (await http.post("/attachments", files={"file": ("notes.txt", b"the notes")})).json()
        source = {"type": "file", "value": uploaded["id"]}
        content = [{"type": "text", "text": "read"}, {"type": "document", "source": source}]
        status, _ = await run(server, "files", "echo", messages=[{"id": "1", "role": "user", "content": content}])
        [session] = (await http.get("/sessions")).json()["sessions"]
        asked = (await messages_of(http, session["id"]))[0]
    assert status == 200 and "notes.txt" in json.dumps(asked)
    stolen = await run(server, "thief", "echo", messages=[{"id": "1", "role": "user", "content": content}])
    assert stolen[0] == 404


async def test_a_run_that_is_sent_again_asks_nothing_twice(server: RunningServer) -> None:
    first, second = [await run(server, "again", "echo") for _ in range(2)]
    assert first == second
    async with rest(server, "dev:again") as http:
        [session] = (await http.get("/sessions")).json()["sessions"]
        assert len(await messages_of(http, session["id"])) == 2


async def test_nobody_reaches_the_thread_of_another_user(server: RunningServer) -> None:
    _, events = await run(server, "owner", "name")
    [interrupt] = events[-1]["outcome"]["interrupts"]
    async with rest(server, "dev:owner") as http:
        [session] = (await http.get("/sessions")).json()["sessions"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "Eve"}]
    for thread in ("t", session["id"]):
        assert (await run(server, "thief", "name", threadId=thread, messages=[], resume=resume))[0] == 409
        _, [_, snapshot, _] = await run(server, "thief", "name", threadId=thread, messages=[])
        assert snapshot["messages"] == []
    # Its owner has the thread under the id of its session too, answers once, and asks nothing else meanwhile.
    assert (await run(server, "owner", "name", runId="r2"))[0] == 409
    _, events = await run(server, "owner", "name", runId="r3", threadId=session["id"], messages=[], resume=resume)
    assert events[-1]["outcome"] == {"type": "success"}
    assert (await run(server, "owner", "name", runId="r4", messages=[], resume=resume))[0] == 409


async def test_an_answer_that_does_not_fit_leaves_the_run_waiting(server: RunningServer) -> None:
    _, events = await run(server, "unfit", "name")
    [interrupt] = events[-1]["outcome"]["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": 5}]
    status, content = await run(server, "unfit", "name", runId="r2", resume=resume)
    assert status == 400 and content.startswith("resume.")
    _, events = await run(server, "unfit", "name", runId="r3", messages=[])
    assert events[-1]["outcome"]["interrupts"] == [interrupt]
