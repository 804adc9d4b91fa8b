"""Policy modules see all that a model is given of documents, and what they take out stands nowhere."""

import json
from pathlib import Path

from support.censoring_module import NAME, modules_file
from support.chat_client import chat
from support.collections_of_documents import BY_WORDS, PATH, collection, serving
from support.rest_client import plain_http
from support.running_server import FAST, running_server

# Longer than one passage, so that the second stands below the heading.
TEXT = f"# Leave of {NAME}\n\nThe leave of {NAME} is 28 days. " + "Who travels on paid leave is on leave. " * 60


async def test_what_a_module_takes_out_of_passages_stands_in_no_name_and_no_heading(tmp_path: Path) -> None:
    settings = {
        **FAST,
        "applications": [{"class_path": PATH, "settings": BY_WORDS}],
        "modules": {"file": str(modules_file(tmp_path))},
    }
    async with (
        running_server(tmp_path, settings=settings) as server,
        plain_http(base_url=f"{server.address}/apps/retrieval") as client,
        chat(server.address) as talk,
    ):
        await serving(client)
        await collection(client, "Staff", **{NAME: TEXT, "travel": TEXT.replace(NAME, "Ann")})
        events = await talk.ask("What is paid leave and travel?", agent_id="documents")
        session_id = events[-1]["messages"][0]["session_id"]
        told = json.loads((await client.get(f"/sessions/{session_id}/turn")).json()["told"])
    assert NAME not in json.dumps([events, told])
    [whole] = [each for each in told["passages"] if each["name"] == "travel.md"]
    # What it leaves is all there, whatever it puts around.
    assert (whole["path"], "28 days" in whole["text"]) == (["Leave of Ann"], True)
    assert {each["name"]: each["path"] for each in told["passages"]} == {"travel.md": ["Leave of Ann"], "…": []}
