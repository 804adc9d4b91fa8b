"""A server that checks tokens, with what its users own, for tests that call it as its documents describe."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

from support.running_server import running_server
from support.signing_realm import CLIENT, SigningRealm, signing_realm
from support.test_agents import ENTRIES

# What a user may have at once is not what these tests are about.
_LIMITS = dict.fromkeys(
    (
        "running_per_user",
        "waiting_per_user",
        "asks_per_minute",
        "sockets_per_user",
        "requests_per_user",
        "empty_sessions_per_user",
        "uploads_per_user",
        "uploads_per_minute",
    )
)


@dataclass(frozen=True)
class Owned:
    """What a user has: a session with an exchange, another one that waits for its answer, an attachment that was not
    sent, and their canary."""

    canary: str
    session_id: str
    exchange_id: str
    waiting_session_id: str
    waiting_exchange_id: str
    attachment_id: str
    seen: list[Any]
    """All of it, as the user sees it."""

    @property
    def names(self) -> list[str]:
        """What nobody else may be told."""
        ids = [self.session_id, self.exchange_id, self.waiting_session_id, self.waiting_exchange_id]
        ids.append(self.attachment_id)
        return [self.canary, *ids]


@dataclass
class DescribedServer:
    address: str
    realm: SigningRealm
    owned: dict[str, Owned] = field(default_factory=dict)

    def headers(self, user: str, *roles: str) -> dict[str, str]:
        token = self.realm.sign(sub=user, preferred_username=user, resource_access={CLIENT: {"roles": list(roles)}})
        return {"Authorization": f"Bearer {token}"}

    def owned_by(self, user: str) -> Owned:
        """What the user has, which is made on first use. All of its texts and names have the canary."""
        if user not in self.owned:
            canary = f"canary of {user}"
            with self._client(user) as http:
                ended, waiting = (_asked(http, agent_id, canary) for agent_id in ("echo", "asking"))
                file = {"file": (f"{canary}.txt", canary)}
                attachment_id = http.post("/attachments", files=file).raise_for_status().json()["id"]
                seen = _seen(http, attachment_id, *ended, *waiting)
                self.owned[user] = Owned(canary, *ended, *waiting, attachment_id, seen)
        return self.owned[user]

    def seen_by(self, user: str) -> list[Any]:
        """What the user has, as they see it."""
        owned = self.owned[user]
        with self._client(user) as http:
            return _seen(
                http,
                owned.attachment_id,
                owned.session_id,
                owned.exchange_id,
                owned.waiting_session_id,
                owned.waiting_exchange_id,
            )

    def _client(self, user: str) -> httpx.Client:
        return httpx.Client(base_url=f"{self.address}/agentic/v1", headers=self.headers(user), verify=False)


def _asked(http: httpx.Client, agent_id: str, canary: str) -> tuple[str, str]:
    """The ids of a new session and of its first exchange, which has ended or waits."""
    session = http.post("/sessions", json={"agent_id": agent_id, "title": canary}).json()
    body = {"content": canary, "client_exchange_id": f"{canary}, {agent_id}"}
    with http.stream("POST", f"/sessions/{session['id']}/messages", json=body) as response:
        for line in response.iter_lines():
            event = orjson.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if event.get("type") in ("final", "awaiting_human"):
                return session["id"], event["exchange_id"]
    raise AssertionError(f"the exchange has neither ended nor waits: {response.status_code}")


def _seen(http: httpx.Client, attachment_id: str, *ids: str) -> list[Any]:
    """The sessions and exchanges with these ids, in turn, and the messages of the sessions; the attachment."""
    paths = [
        path
        for session_id, exchange_id in zip(ids[::2], ids[1::2], strict=True)
        for path in (f"/sessions/{session_id}", f"/sessions/{session_id}/messages", f"/exchanges/{exchange_id}")
    ]
    attachment = http.get(f"/attachments/{attachment_id}").raise_for_status().text
    return [*(http.get(path).raise_for_status().json() for path in paths), attachment]


@asynccontextmanager
async def described_server(directory: Path) -> AsyncIterator[DescribedServer]:
    async with signing_realm() as realm:
        auth = {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}
        async with running_server(
            directory,
            agents=ENTRIES,
            settings={"auth": auth, "limits": _LIMITS, "agents": {"database": {"enabled": True}}},
        ) as server:
            yield DescribedServer(server.address, realm)
