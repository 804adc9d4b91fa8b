"""Panels of applications on the server: what is declared, who is told of them, and how their documents are served."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.page_panels import panels_server
from support.panel_application import DOCUMENT, DRAWING, Boards
from support.rest_client import error_of, plain_http, rest
from support.running_server import RunningServer

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Panel, PartKind
from agentic_backend.hosting.declared_panels import declared_panels

BOARD = Panel("board", "Board", "board.html")
ANN = {"Authorization": "Bearer dev:ann"}


@pytest.fixture
async def server(tmp_path: Path) -> Any:
    async with panels_server(tmp_path) as server:
        yield server


async def test_a_user_is_told_of_the_panels_of_their_roles(server: RunningServer) -> None:
    async with rest(server, None) as admin, rest(server, "dev:ann") as ann:
        [of_admin], [of_ann] = [(await client.get("/info")).json()["applications"] for client in (admin, ann)]
    assert [panel["name"] for panel in of_admin["panels"]] == ["board", "whole", "small", "drawing", "admins"]
    assert of_ann["panels"] == of_admin["panels"][:4]
    assert of_ann["panels"][0] == {
        "name": "board",
        "title": "Board",
        "path": "/apps/boards/panels/board.html",
        "place": "beside",
        "may": ["ask", "decide", "follow"],
        "preview": "tell",
    }
    assert of_ann["panels"][3]["place"] == "part" and of_ann["panels"][3]["part"] == "boards:drawing"


async def test_its_document_is_for_who_sees_it_and_does_nothing_outside_of_a_frame(server: RunningServer) -> None:
    async with plain_http(base_url=f"{server.address}/apps/boards") as client:
        found = await client.get("/panels/board.html", headers=ANN)
        assert (found.text, found.headers["content-type"]) == (DOCUMENT, "text/html; charset=utf-8")
        assert found.headers["content-security-policy"] == "default-src 'none'; sandbox"
        refused = await client.get("/panels/board.html", headers={"Authorization": "Bearer nobody"})
        assert error_of(refused)["code"] == "unauthenticated"
        assert error_of(await client.get("/panels/admins.html", headers=ANN))["code"] == "not_found"
        assert (await client.get("/panels/admins.html")).text == DOCUMENT
        # The application's own calls keep their paths, but for those of the server.
        document = (await client.get("/openapi.json", headers=ANN)).json()
        assert document["info"]["title"] == "Boards" and "/apps/boards/{name}" in document["paths"]
        assert (await client.get("/panels/other.html", headers=ANN)).json()["board"] == "other.html"


async def test_the_frame_of_all_panels_reaches_nothing(server: RunningServer) -> None:
    async with plain_http(base_url=server.address) as client:
        page = await client.get("/")
        assert "frame-src 'self'" in page.headers["content-security-policy"]
        [version] = set(re.findall(r"static/([0-9a-f]{16})/", page.text))
        policy = (await client.get(f"/static/{version}/frame.html")).headers["content-security-policy"]
        directives = dict(each.strip().partition(" ")[::2] for each in policy.split(";"))
        assert directives["sandbox"] == "allow-scripts allow-forms"
        assert directives["default-src"] == "'none'" and "connect-src" not in directives
        assert directives["frame-ancestors"] == "'self'"
        # As a source it is no frame.
        source = (await client.get("/static/frame.html")).headers["content-security-policy"]
        assert "frame-ancestors 'none'" in source


@pytest.mark.parametrize(
    ("panels", "told"),
    [
        ([replace(BOARD, name="No name")], "a name has lower-case letters"),
        ([BOARD, BOARD], "another panel has this name"),
        ([replace(BOARD, title="\n")], "the title has to be a text"),
        ([replace(BOARD, title="x\ud800")], "the title has to be a text"),
        ([replace(BOARD, title="Bank\u202e")], "the title has to be a text"),
        ([replace(BOARD, file="../board.html")], "the file has to be the name of an HTML file"),
        ([replace(BOARD, file="other.html")], "there is no file"),
        ([replace(BOARD, place="above")], "the place has to be one of beside, instead, sidebar, or one of 'parts'"),
        ([replace(BOARD, place=PartKind("drawing", DRAWING.model))], "the place has to be one of"),
        ([replace(BOARD, place=DRAWING), replace(BOARD, name="b", place=DRAWING)], "another panel shows this kind"),
        ([replace(BOARD, may={"ask", "read"})], "what it may do is a set of ask, decide, follow"),
        ([replace(BOARD, may="ask")], "what it may do is a set of"),
        ([replace(BOARD, roles="admin")], "the roles have to be a set of texts"),
        ([replace(BOARD, preview="say")], "the preview has to be the name of a POST call that answers with a Preview"),
        ({"board": BOARD}, "'panels' has to be a list of at most 20 of class Panel"),
    ],
)
def test_what_is_no_panel_is_refused_in_words(panels: Any, told: str) -> None:
    odd = type("Odd", (Boards,), {"panels": panels, "__module__": Boards.__module__})
    with pytest.raises(ClassPathError, match=re.escape(told)):
        declared_panels("boards", odd, [DRAWING], {"tell"})


def test_a_document_is_of_utf8_and_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspect.getfile", lambda target: str(tmp_path / "module.py"))
    for content, told in ((b"\xff", "is no UTF-8"), (b"x" * (1024 * 1024 + 1), "is larger than 1048576 bytes")):
        (tmp_path / "board.html").write_bytes(content)
        with pytest.raises(ClassPathError, match=re.escape(told)):
            declared_panels("boards", type("Odd", (Boards,), {"panels": [BOARD]}), [])
