"""docs/examples/application as a wheel, installed beside the server: on SQLite, and on MongoDB with two servers."""

import ast
import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, expect
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import chat
from support.chat_page import chat_page
from support.documents import DOCS
from support.rest_client import metric_at, plain_http
from support.server_process import ServerProcess, serving

from agentic_backend.stores.opening import open_sqlite

EXAMPLE = DOCS / "examples" / "application"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python that has the example's wheel beside what it has."""
    directory = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(directory), str(EXAMPLE)]
    subprocess.run(build, check=True, timeout=120)
    [wheel] = directory.glob("team_notes-*.whl")
    site = directory / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True, timeout=120)
    return {"PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])}


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def servers(
    request: pytest.FixtureRequest, installed: dict[str, str], tmp_path: Path
) -> AsyncIterator[list[ServerProcess]]:
    async with AsyncExitStack() as stack:
        number, arguments = 1, []
        if request.param != "sqlite":
            url = await stack.enter_async_context(fresh_database(server_url(request.param, request)))
            number, arguments = 2, ["--store", url]
        yield [
            await stack.enter_async_context(serving(*arguments, cwd=tmp_path, environment=installed))
            for _ in range(number)
        ]


def as_user(server: ServerProcess, user: str) -> httpx.AsyncClient:
    return plain_http(base_url=server.address, headers={"authorization": f"Bearer dev:{user}"})


async def notes_on(http: httpx.AsyncClient, topic: str) -> list[str]:
    return sorted((await http.get("/apps/team-notes/notes", params={"topic": topic})).json()["notes"].values())


async def test_it_is_served_shared_and_deleted_with_its_user(servers: list[ServerProcess], tmp_path: Path) -> None:
    here, there = servers[0], servers[-1]
    async with as_user(here, "ann") as ann, as_user(there, "bob") as bob:
        async with asyncio.timeout(20):
            while len((await bob.get("/agentic/v1/info")).json()["applications"]) < 1:
                await asyncio.sleep(0.05)
        added = [
            client.post("/apps/team-notes/notes", json={"text": f"{n} by {name}", "topic": "marked topic"})
            for name, client in (("ann", ann), ("bob", bob))
            for n in range(4)
        ]
        assert {answer.status_code for answer in await asyncio.gather(*added)} == {204}
        async with chat(here.address, token="dev:ann") as client:
            ask = 'call save_note(text="said by ann", topic="marked topic")'
            assert (await client.ask(ask, agent_id="note-keeper"))[-1]["status"] == "ok"
        assert len(await notes_on(bob, "marked topic")) == 9
        topics = (await ann.get("/apps/team-notes/topics")).json()["topics"]
        assert topics == {"marked topic": 9}
        saved = [await metric_at(str(server.internal), "chat_app_team_notes__saved_total") for server in servers]
        assert sum(saved) == 9
        assert (await ann.delete("/agentic/v1/me")).status_code == 204
        assert await notes_on(bob, "marked topic") == [f"{n} by bob" for n in range(4)]
        exported = (await bob.get("/agentic/v1/me/export")).text
        assert exported.count('"table":"application_records"') == 4 and "by ann" not in exported
    for server in servers:
        assert await server.stop() == 0
        assert "application failed" not in server.stderr
    if file := next(tmp_path.rglob("chat.sqlite3"), None):
        async with aclosing(await open_sqlite(file, 10)) as store:
            await store.erase()
        left = b"".join(each.read_bytes() for each in tmp_path.rglob("chat.sqlite3*"))
        assert b"by bob" in left and b"by ann" not in left and b"said by" not in left


def test_it_needs_the_public_module_alone_and_few_lines() -> None:
    [source] = (EXAMPLE / "team_notes").glob("*.py")
    nodes = list(ast.walk(ast.parse(source.read_text())))
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert imported == {"collections.abc", "langchain_core.tools", "agentic_backend.application"}
    assert not [node for node in nodes if isinstance(node, ast.Import)]
    assert len(source.read_text().splitlines()) <= 200


@pytest.mark.chromium
@pytest.mark.asyncio(loop_scope="module")
async def test_its_panels_show_what_is_written(browser: Browser, installed: dict[str, str], tmp_path: Path) -> None:
    async with serving(cwd=tmp_path, environment=installed) as server, chat_page(browser, server.address) as page:
        await page.choose_agent("note-keeper")
        await page.asked('call save_note(text="Tea is out.", topic="kitchen")')
        await page.unfold()
        written = page.tab.frame_locator('iframe[title="A note"]')
        await expect(written.locator("body")).to_contain_text("Tea is out.")
        await page.by("panel-menu").click()
        await page.by("panel").click()
        board = page.tab.frame_locator('iframe[title="Team notes"]')
        await board.get_by_label("Topic").fill("kitchen")
        await board.get_by_role("button", name="Show").click()
        await expect(board.locator("li")).to_have_text(["Tea is out."])
        await board.get_by_label("Note").fill("Coffee too.")
        await board.get_by_role("button", name="Write").click()
        await expect(board.locator("li")).to_have_count(2)
        assert sorted(await board.locator("li").all_inner_texts()) == ["Coffee too.", "Tea is out."]
