"""What a server tells of itself, and the documents that it publishes."""

import re
from pathlib import Path

import pytest
from starlette.datastructures import QueryParams
from support.contract import DOCS, declared
from support.rest_client import error_of, plain_http, rest
from support.running_server import RunningServer, running_server

from agentic_backend.transports.calls.users.info_api import FEATURES
from agentic_backend.transports.contract.doors import DOORS, door_of

PROTOCOL = (DOCS / "protocol.md").read_text()


async def test_info_tells_the_limits_that_apply(tmp_path: Path) -> None:
    limits = {"message_bytes": 2_000, "asks_per_minute": 7, "sockets_per_user": None}
    async with running_server(tmp_path, settings={"limits": limits}) as server, rest(server, "dev:alice") as http:
        told = (await http.get("/info")).json()["limits"]
    assert (told["message_bytes"], told["asks_per_minute"]) == (2_000, 7)
    assert "sockets_per_user" not in told


async def test_info_tells_versions_and_the_sizes_of_pages(server: RunningServer) -> None:
    async with rest(server, "dev:alice") as http:
        told = (await http.get("/info")).json()
    assert told["versions"]["protocols"] == ["chat.v2", "classic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", told["versions"]["server"])
    assert told["page_sizes"]["list_messages"] == {"default": 200, "at_most": 1_000}
    assert [door["name"] for door in told["doors"]] == [door.name for door in DOORS]


async def test_info_tells_admins_that_they_are(server: RunningServer) -> None:
    async with rest(server) as http:
        assert (await http.get("/info")).json()["is_admin"] is True
    async with rest(server, "dev:alice") as http:
        assert "is_admin" not in (await http.get("/info")).json()


async def test_info_needs_identity(server: RunningServer) -> None:
    async with rest(server, "nonsense") as http:
        response = await http.get("/info")
    assert (response.status_code, error_of(response)["code"]) == (401, "unauthenticated")


async def test_every_path_that_info_names_as_a_document_is_served_without_identity(server: RunningServer) -> None:
    async with rest(server, "dev:alice") as http:
        paths = (await http.get("/info")).json()["versions"]["documents"]
    async with plain_http(base_url=server.address, headers={"authorization": "Bearer nonsense"}) as http:
        for path in paths:
            response = await http.get(path)
            assert response.content == (DOCS / path.removeprefix("/")).read_bytes()
            assert response.headers["content-type"] == "application/json"
            assert "max-age" in response.headers["cache-control"]


async def test_every_list_has_pages_of_the_documented_sizes_whatever_is_asked_for(server: RunningServer) -> None:
    async with rest(server, "dev:alice") as http:
        sizes = (await http.get("/info")).json()["page_sizes"]
    documented = {
        f"{method} {path}": {"default": int(default), "at_most": int(at_most)}
        for method, path, default, at_most in re.findall(r"^\| `(GET) (/\S*)`.* \| (\d+) \| (\d+) \|$", PROTOCOL, re.M)
    }
    lists = {each.id: each for each in declared() if each.query is not None and each.id in sizes}
    assert {f"{each.method} {each.path}": sizes[name] for name, each in lists.items()} == documented
    for name, each in lists.items():
        assert each.query is not None
        for given, limit in [(str(10**9), sizes[name]["at_most"]), (None, sizes[name]["default"]), ("1", 1)]:
            needed = {field: "x" for field, told in each.query.model_fields.items() if told.is_required()}
            parameters = QueryParams(needed | ({"limit": given} if given else {}))
            assert each.query.of(parameters).limit == limit  # type: ignore[attr-defined]


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_is_documented(feature: str) -> None:
    assert f"| `{feature}` |" in PROTOCOL


def test_every_operation_belongs_to_a_door() -> None:
    assert {door_of(operation.path).name for operation in declared()} <= {door.name for door in DOORS}
    assert door_of("/agentic/v1/chatbot/sessions").name == "classic"
    assert door_of("/agentic/v1/metrics/chatbot/summary").name == "rest"
