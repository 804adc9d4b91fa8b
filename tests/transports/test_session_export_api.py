"""The export of one session: a file that reads well, or one for machines; for its user alone, and never unbounded."""

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from markdown_it import MarkdownIt
from services.mongodb import further_on_mongodb
from support.chat_client import chat
from support.rest_client import error_of, messages_of, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.protocol.messages import Channel, MessageMetadata, Role
from agentic_backend.protocol.parts import Part, TextPart, ToolCallPart, ToolResultPart
from agentic_backend.stores.base import ExchangeEnd, Fence, Store
from agentic_backend.stores.records import ExchangeStatus, MessageDraft, TokenUsage
from tests.stores.samples import a_session, an_exchange


@pytest.fixture
async def server(store: Store, store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES, settings={"store": {"url": store_url}}) as server:
        yield server


def draft(role: Role, channel: Channel, *parts: Part, **metadata: Any) -> MessageDraft:
    return MessageDraft(role=role, channel=channel, parts=list(parts), metadata=MessageMetadata(**metadata))


async def exported(client: httpx.AsyncClient, session_id: str, format: str) -> str:
    answer = await client.get(f"/sessions/{session_id}/export", params={"format": format})
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    return answer.text


async def echoed_twice(server: RunningServer) -> str:
    """A session of two exchanges, "one" and "two"."""
    async with chat(server.address, token="dev:ann") as client:
        session_id: str = (await client.ask("one", agent_id="echo"))[-1]["session_id"]
        await client.ask("two", session_id=session_id)
    return session_id


async def test_a_session_is_a_document_for_people(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        events = await client.ask("What is 17 * 23?\n\n```\nx < y\n```", agent_id="assistant")
        session_id = events[-1]["session_id"]
        await client.ask("Thanks. <b>Bye", session_id=session_id)
    async with rest(server, "dev:ann") as client:
        await client.patch(f"/sessions/{session_id}", json={"title": "Sums *and* more"})
        text = await exported(client, session_id, "md")
    lines = text.splitlines()
    assert lines[0] == r"# Sums \*and\* more" and "- Agent: assistant" in lines
    for line in ("> What is 17 * 23?", "> x < y", "> Thanks. &lt;b>Bye", "<summary>Tool: calculate</summary>"):
        assert lines.count(line) == 1
    assert lines.count("---") == 2 and sum(line.startswith("## Question, 20") for line in lines) == 2
    assert lines.count("## Answer by assistant") == 2
    call = lines.index("<summary>Tool: calculate</summary>")
    assert lines[call - 1 : call + 7] == [
        "<details>",
        "<summary>Tool: calculate</summary>",
        "",
        "```json",
        "{",
        '  "expression": "17 * 23"',
        "}",
        "```",
    ]
    assert "391" in text[text.index("Result of calculate") :]


async def test_a_session_is_a_document_for_machines(server: RunningServer) -> None:
    session_id = await echoed_twice(server)
    async with rest(server, "dev:ann") as client:
        found = json.loads(await exported(client, session_id, "json"))
        assert found["messages"] == await messages_of(client, session_id)
        assert found["exchanges"] == (await client.get(f"/sessions/{session_id}/exchanges")).json()["exchanges"]
        assert found["session"] == (await client.get(f"/sessions/{session_id}")).json()
        empty = (await client.post("/sessions", json={"agent_id": "echo"})).json()
        found = json.loads(await exported(client, empty["id"], "json"))
        assert (found["version"], found["session"], found["exchanges"], found["messages"]) == (1, empty, [], [])


async def test_a_branch_has_what_it_shares(server: RunningServer) -> None:
    session_id = await echoed_twice(server)
    async with rest(server, "dev:ann") as client:
        await client.put(f"/sessions/{session_id}/messages/1/feedback", json={"rating": "up"})
        branch = (await client.post(f"/sessions/{session_id}/fork", json={"rank": 2})).json()["id"]
        found = json.loads(await exported(client, branch, "json"))
        assert [message["parts"][0]["text"] for message in found["messages"]] == ["one", "echo: one"]
        assert [exchange["first_rank"] for exchange in found["exchanges"]] == [0]
        given = (await client.get(f"/sessions/{branch}/feedback")).json()["feedback"]
        assert [(each["rank"], each["rating"]) for each in given] == [(1, "up")]
        link = (await client.post(f"/sessions/{branch}/shares", json={})).json()
        assert [each["rank"] for each in (await client.get(f"/shares/{link['secret']}")).json()["messages"]] == [0, 1]


@further_on_mongodb("store_url")
async def test_no_text_of_a_message_leaves_its_place(server: RunningServer, store: Store) -> None:
    session = a_session("ann", title="```\n# <script>\u202e\x07")
    exchange = an_exchange(session)
    hostile = "````\n</details>\n<script>alert(1)</script>\n````\n# Forged"
    asked = draft(Role.USER, Channel.FINAL, TextPart(text=f"<!--\n{hostile}\n```"))
    written = await store.begin_exchange(exchange, asked, session)
    fence = Fence(session.id, exchange.id, written.session.next_rank, exchange.owner)
    source = {"number": 1, "title": "a](javascript:alert(1)) <b>", "url": "javascript:alert(1)"}
    linked = {"number": 2, "title": "good ] one", "url": "https://a.example/x>(y) z"}
    messages = [
        draft(
            Role.ASSISTANT, Channel.TOOL_CALL, ToolCallPart(call_id="c", name="</summary>\n\n# x", args={"a": hostile})
        ),
        draft(Role.TOOL, Channel.TOOL_RESULT, ToolResultPart(call_id="c", ok=False, content=hostile)),
        draft(Role.ASSISTANT, Channel.FINAL, TextPart(text="<!-- ```\n~~~"), sources=[source, linked]),
    ]
    await store.append(fence, messages, ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=9))
    async with rest(server, "dev:ann") as client:
        text = await exported(client, session.id, "md")
    lines = text.splitlines()
    assert lines[0].startswith(r"# \`\`\` # \<script\>")
    tokens = MarkdownIt("commonmark").parse(text)
    assert not {child.type for token in tokens for child in token.children or []} & {"html_inline", "image"}
    made = [token.content for token in tokens if token.type == "html_block"]
    assert [html for html in made if not html.startswith(("<details>\n<summary>", "</details>"))] == []
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open" and not token.level]
    assert [heading.split(",")[0] for heading in headings[1:]] == ["Question", "Answer"]
    links = [child.attrs["href"] for token in tokens for child in token.children or [] if child.type == "link_open"]
    assert links == ["https://a.example/x%3E(y)%20z"]
    assert text.count("<details>") == 2 and "`````json" in lines
    assert "<summary>Failure of &lt;/summary&gt; # x</summary>" in lines
    assert lines[-2:] == [r"1. a\](javascript:alert(1)) \<b\>", r"2. [good \] one](<https://a.example/x%3E(y)%20z>)"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Weather in Bern", "Weather in Bern.md"),
        ("Größe 😀 \u202egnp.exe", "Größe 😀 gnp.exe.md"),
        ("../../etc/passwd\r\nX: y", "etc passwd X y.md"),
        ('a"; filename="b.exe', "a ; filename= b.exe.md"),
        ("a\u00a0b\u2800c\u3164d\u200be\U000e0041f", "a b c d e f.md"),
        ("  ...  ", "conversation.md"),
        ("ü" * 200, "ü" * 90 + ".md"),
    ],
)
@further_on_mongodb("store_url")
async def test_the_file_is_named_after_the_session(server: RunningServer, store: Store, title: str, name: str) -> None:
    session = a_session("ann", title=title)
    await store.create_session(session)
    async with rest(server, "dev:ann") as client:
        answer = await client.get(f"/sessions/{session.id}/export")
    disposition = answer.headers["content-disposition"]
    plain, _, whole = disposition.partition("; filename*=UTF-8''")
    assert unquote(whole) == name and whole.isascii()
    assert plain.startswith('attachment; filename="') and plain.count('"') == 2
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"


@further_on_mongodb("store_url")
async def test_a_long_session_is_written_a_page_at_a_time(server: RunningServer, store: Store) -> None:
    session = a_session("ann")
    await store.create_session(session)
    for number in range(150):
        exchange = an_exchange(session)
        written = await store.begin_exchange(exchange, draft(Role.USER, Channel.FINAL, TextPart(text=f"Q{number}.")))
        fence = Fence(session.id, exchange.id, written.session.next_rank, exchange.owner)
        answer = draft(Role.ASSISTANT, Channel.FINAL, TextPart(text="x" * 20_000))
        await store.append(fence, [answer], ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=9))
    async with rest(server, "dev:ann") as client:
        async with client.stream("GET", f"/sessions/{session.id}/export") as answer:
            assert "content-length" not in answer.headers
            text = "".join([piece async for piece in answer.aiter_text()])
        assert [line for line in text.splitlines() if line.startswith("> Q")] == [f"> Q{n}." for n in range(150)]
        found = json.loads(await exported(client, session.id, "json"))
        assert [message["rank"] for message in found["messages"]] == list(range(300))
        assert len(found["exchanges"]) == 150


async def test_nobody_exports_what_is_anothers(server: RunningServer, store: Store) -> None:
    session = a_session("ann")
    await store.create_session(session)
    async with rest(server, "dev:bob") as client:
        for session_id in (session.id, "nothing"):
            assert error_of(await client.get(f"/sessions/{session_id}/export"))["code"] == "session_not_found"
    async with rest(server, "dev:ann") as client:
        assert error_of(await client.get(f"/sessions/{session.id}/export?format=pdf"))["code"] == "bad_frame"
