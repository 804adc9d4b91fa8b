"""`GET /search`: sessions with the places of the words that were searched for."""

from typing import Any

import httpx
import pytest
from support.chat_client import chat
from support.rest_client import error_of, rest
from support.running_server import RunningServer


async def search(http: httpx.AsyncClient, q: str, **more: Any) -> dict[str, Any]:
    response = await http.get("/search", params={"q": q, **more})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def marked(pieces: list[dict[str, Any]]) -> str:
    return "".join(f"[{piece['text']}]" if piece["match"] else piece["text"] for piece in pieces)


async def test_a_hit_has_its_place_and_a_snippet(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        final = (await client.ask("A Needle in the hay", agent_id="echo"))[-1]
        session_id = final["session_id"]
        await http.patch(f"/sessions/{session_id}", json={"title": "Of needles", "archived": True})
        [found] = (await search(http, "NEEDLE"))["found"]
        assert (found["session"]["id"], found["session"]["archived"]) == (session_id, True)
        assert marked(found["title"]) == "Of [needle]s"
        answer, question = found["hits"]
        assert [hit["role"] for hit in (answer, question)] == ["assistant", "user"]
        assert marked(question["snippet"]) == "A [Needle] in the hay"
        assert (question["rank"], question["exchange_id"]) == (0, final["exchange_id"])
        stored = (await http.get(f"/sessions/{session_id}/messages")).json()["messages"]
        assert answer["timestamp"] == stored[answer["rank"]]["timestamp"]
        [both] = (await search(http, "hay  needle"))["found"]
        assert marked(both["hits"][-1]["snippet"]) == "A [Needle] in the [hay]"


async def test_an_answer_is_shown_without_its_marks_and_a_question_as_it_was_written(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        await client.ask("**Needle** [a](https://x.org)", agent_id="echo")
        [found] = (await search(http, "needle"))["found"]
        answer, question = found["hits"]
        assert marked(answer["snippet"]).endswith("[Needle] a")
        assert marked(question["snippet"]) == "**[Needle]** [a](https://x.org)"


async def test_pages_follow_each_other(server: RunningServer) -> None:
    async with rest(server) as http:
        for number in range(3):
            await http.post("/sessions", json={"title": f"Needle {number}"})
        first = await search(http, "needle", limit=2)
        second = await search(http, "needle", limit=2, cursor=first["next_cursor"])
        titles = [each["session"]["title"] for page in (first, second) for each in page["found"]]
        assert titles == ["Needle 2", "Needle 1", "Needle 0"] and "next_cursor" not in second


async def test_nobody_finds_anothers(server: RunningServer) -> None:
    async with rest(server, "dev:alice") as alice, rest(server, "dev:bob") as bob:
        await alice.post("/sessions", json={"title": "Needle"})
        assert await search(bob, "needle") == {"found": []}


@pytest.mark.parametrize(
    "query", [{}, {"q": ""}, {"q": " \n "}, {"q": "x" * 201}, {"q": "a\x00"}, {"q": "a", "limit": 0}]
)
async def test_a_search_for_nothing_is_refused(server: RunningServer, query: dict[str, Any]) -> None:
    async with rest(server) as http:
        response = await http.get("/search", params=query)
        assert (response.status_code, error_of(response)["code"]) == (400, "bad_frame")
