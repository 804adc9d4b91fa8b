"""Calls of applications that need permissions: the settings say what the users with each role have."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.rest_client import error_of, plain_http
from support.running_server import FAST, running_server

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Application, Call, User
from agentic_backend.hosting.declared_calls import declared_calls, declared_permissions

HERE = "hosting.test_permissions_of_applications:"


class Shelved(Application):
    """Has shelves."""

    id = "shelved"
    title = "Shelved"
    version = "1"
    permissions: ClassVar[dict[str, str]] = {
        "shelves:read:all": "Reading shelves.",
        "shelves:write:all": "Filling shelves.",
    }

    def calls(self) -> Sequence[Call]:
        return [
            Call("GET", "/shelves", self.read, permissions=["shelves:read:all"]),
            Call("POST", "/shelves", self.fill, permissions=["shelves:read:all", "shelves:write:all"]),
        ]

    async def read(self, user: User) -> None:
        """Read."""

    async def fill(self, user: User) -> None:
        """Fill."""


@pytest.mark.parametrize(
    ("roles", "read", "fill"),
    [({}, 204, 204), ({"*": ["shelves:read:*"]}, 204, 403), ({"editor": ["*"]}, 403, 403)],
)
async def test_who_has_them_may_call(tmp_path: Path, roles: dict[str, Any], read: int, fill: int) -> None:
    settings = {**FAST, "applications": [{"class_path": f"{HERE}Shelved"}], "permissions": {"roles": roles}}
    async with running_server(tmp_path, settings=settings) as server:
        headers = {"authorization": "Bearer dev:ann"}
        async with plain_http(base_url=f"{server.address}/apps/shelved", headers=headers) as client:
            async with asyncio.timeout(30):
                while (await client.get("/shelves")).status_code == 503:
                    await asyncio.sleep(0.01)
            answers = [await client.get("/shelves"), await client.post("/shelves")]
            assert [answer.status_code for answer in answers] == [read, fill]
            if fill == 403:
                assert "shelves:write:all" in error_of(answers[1])["content"]


@pytest.mark.parametrize("permissions", ["shelves", {"a b": "A."}, {"a:b": ""}, {"a:*": "All."}, {1: "A."}])
def test_odd_permissions_are_refused(permissions: Any) -> None:
    with pytest.raises(ClassPathError, match="permission"):
        declared_permissions(permissions)


@pytest.mark.parametrize("needed", [["shelves:burn:all"], "shelves:read:all", [1]])
def test_a_call_needs_what_the_application_declares(needed: Any) -> None:
    call = Call("GET", "/shelves", Shelved(None).read, permissions=needed)
    with pytest.raises(ClassPathError, match="'permissions'"):
        declared_calls("shelved", [call], Shelved.permissions)
