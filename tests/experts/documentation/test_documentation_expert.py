"""The documentation expert over a real socket, with the shipped documents and with a folder of one's own."""

from pathlib import Path
from typing import Any

import pytest
from graphs.talk import ask, told
from support.chat_client import Event, chat, final_text
from support.rest_client import plain_http
from support.running_server import running_server

from agentic_backend.experts.documentation.search_tool import search_tool

CLASS_PATH = "agentic_backend.experts.documentation.documentation_expert:DocumentationExpert"


def librarian(**fields: Any) -> dict[str, Any]:
    return {"id": "librarian", "class_path": CLASS_PATH, "tuning": {"fields": fields}}


def sources(events: list[Event]) -> list[dict[str, Any]]:
    return [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == "link"]


async def test_it_searches_the_shipped_documents_and_names_its_sources(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[librarian()]) as server:
        events = await ask(server.address, "Search the documents for close codes", agent_id="librarian")
    assert told(events)[0] == ("tool_call", "search_documents")
    assert sources(events)[0] == {
        "type": "link",
        "kind": "citation",
        "title": "Chat Protocol v2: Close codes",
        "file_name": "chat-protocol.md",
        "href": "/documents/chat-protocol.md",
        "source_id": "1",
    }
    assert "**Chat Protocol v2** (Close codes)" in final_text(events)
    assert all(f"[{source['source_id']}]" in final_text(events) for source in sources(events))


async def test_what_it_cites_can_be_opened(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[librarian()]) as server, plain_http(base_url=server.address) as http:
        found = await http.get("/documents/chat-protocol.md")
        others = [await http.get(f"/documents/{name}") for name in ("none.md", "..%2Fprompts.py", "chat-protocol")]
    assert found.status_code == 200 and found.text.startswith("# Chat Protocol v2")
    assert found.headers["content-type"] == "text/plain; charset=utf-8"
    assert "sandbox" in found.headers["content-security-policy"]
    assert [other.status_code for other in others] == [404, 404, 404]


async def test_its_sources_are_numbered_through_an_exchange_and_anew_in_the_next(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\nHot water.\n\n## Cups\n\nOf china.")
    links = "https://docs.example.org/{file}"
    agents = [librarian(folder=str(tmp_path), links=links)]
    async with running_server(tmp_path, agents=agents) as server:
        first = await ask(server.address, "search the documents for tea", agent_id="librarian")
        second = await ask(server.address, "search the documents for china", session_id=first[0]["session_id"])
    assert [source["source_id"] for source in sources(first)] == ["1", "2"]
    assert [source["source_id"] for source in sources(second)] == ["1"]
    assert {source["href"] for source in sources(first)} == {"https://docs.example.org/tea.md"}


async def test_it_searches_a_folder_of_ones_own_as_it_is_now(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nHot water, leaves.")
    async with running_server(tmp_path, agents=[librarian(folder=str(folder))]) as server:
        first = await ask(server.address, "search the documents for water", agent_id="librarian")
        assert [source["title"] for source in sources(first)] == ["Tea"]
        (folder / "soup.md").write_text("# Soup\n\nWater, salt, leek, leek.")
        found = await ask(server.address, "search the documents for leek", session_id=first[0]["session_id"])
        assert [source["file_name"] for source in sources(found)] == ["soup.md"]
        missed = await ask(server.address, "search the documents for elephants", session_id=first[0]["session_id"])
    assert sources(missed) == []
    assert "nothing about 'elephants'" in final_text(missed)


async def test_without_its_folder_it_can_not_be_asked(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, agents=[librarian(folder=str(tmp_path / "none"))]) as server,
        chat(server.address) as client,
    ):
        events = await client.ask("search the documents for water", agent_id="librarian")
    [error] = [event for event in events if event["type"] == "error"]
    assert error["code"] == "agent_unavailable"
    assert error["content"] == "The agent 'librarian' has no folder of documents."


async def test_documents_that_can_not_be_read_are_a_failed_result(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    call = {"type": "tool_call", "id": "call_1", "name": "search_documents", "args": {"query": "water"}}
    result = await search_tool(tmp_path, "tea").ainvoke(call)
    assert (result.status, result.text) == ("error", "The documents can't be read.")


@pytest.mark.parametrize("about", ["tea", "the house"])
def test_the_tool_says_what_the_documents_are_about(tmp_path: Path, about: str) -> None:
    assert search_tool(tmp_path, about).description.startswith(f"Search the documents about {about}.")
