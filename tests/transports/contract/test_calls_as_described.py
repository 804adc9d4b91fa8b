"""Every REST call does what the OpenAPI document says of it, whatever is sent: schemathesis calls them all."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import schemathesis
from support.contract import declared
from support.in_thread import in_thread
from support.running_server import running_server
from support.signing_realm import CLIENT, SigningRealm, signing_realm
from support.test_agents import ENTRIES

from agentic_backend.transports.admin_gate import is_for_admins
from agentic_backend.transports.contract.documents import documents

DOCUMENT = orjson.loads(documents(declared())["openapi.json"])
CONFIG = schemathesis.Config.from_dict(
    {
        "seed": 1,
        "max-stream-events": 5,
        "request-timeout": 10,
        "generation": {
            "max-examples": 15,
            "deterministic": True,
            "database": "none",
            # Unknown ones are ignored.
            "allow-extra-parameters": False,
        },
        # Rules between two values, and names that a server gives, are beyond a schema: see the examples below.
        "checks": {"positive_data_acceptance": {"enabled": False}},
    }
)
# A user's calls are not what is bounded here.
LIMITS = dict.fromkeys(
    [
        "running_per_user",
        "waiting_per_user",
        "asks_per_minute",
        "sockets_per_user",
        "requests_per_user",
        "empty_sessions_per_user",
    ]
)
api = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)


@dataclass(frozen=True)
class Served:
    address: str
    realm: SigningRealm

    def headers(self, user: str, *roles: str) -> dict[str, str]:
        token = self.realm.sign(sub=user, preferred_username=user, resource_access={CLIENT: {"roles": list(roles)}})
        return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[Served]:
    async with signing_realm() as realm:
        auth = {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}
        async with running_server(directory, agents=ENTRIES, settings={"auth": auth, "limits": LIMITS}) as server:
            yield Served(server.address, realm)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with in_thread(partial(serving, tmp_path_factory.mktemp("server"))) as served:
        yield served


@api.parametrize()
def test_a_call_is_answered_as_described(case: Any, served: Served) -> None:
    roles = ["admin"] if is_for_admins(case.operation.path) else []
    case.call_and_validate(base_url=served.address, headers=served.headers("alice", *roles))
