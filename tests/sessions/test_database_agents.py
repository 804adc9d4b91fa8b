"""The agents of the database beside those of the file: what a read that fails, and a reload, leave of them."""

import asyncio
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from support.admin_agents import entry
from support.failing_store import FailingStore

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.catalog.allowed_code import AllowedCode
from agentic_backend.agents.catalog.database_entries import DatabaseEntries, DatabaseEntry
from agentic_backend.auth.user import User
from agentic_backend.config.topics.apis import NO_APIS
from agentic_backend.config.topics.database_agents import DatabaseAgentsSettings
from agentic_backend.sessions.agents.database_agents import DatabaseAgents
from agentic_backend.stores.protocol.agent_versions import AgentVersionRecord, version_id
from agentic_backend.stores.sqlite.store import SqliteStore

ADMIN = User(id="ada", name="Ada", is_admin=True)
CLASSES = ["support.test_agents:*"]
SETTINGS = DatabaseAgentsSettings.model_validate({"enabled": True, "classes": CLASSES, "look_every_s": 0.05})


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FailingStore]:
    real = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=10)
    yield FailingStore(real)
    await real.aclose()


@pytest.fixture
def agents(tmp_path: Path) -> AgentManager:
    path = tmp_path / "agents_catalog.yaml"
    path.write_text(yaml.safe_dump({"agents": [{"id": "filed", "class_path": "support.test_agents:echo_graph"}]}))
    return AgentManager.load(path, ["default"])


class Entries(DatabaseEntries):
    """Counts what it imports, and may break."""

    def __init__(self) -> None:
        super().__init__(AllowedCode(CLASSES), ["default"], [], NO_APIS)
        self.read_count = 0
        self.breaks = False

    def read(self, yaml: str, profiles: Collection[str], agent_id: str | None = None) -> DatabaseEntry:
        self.read_count += 1
        if self.breaks:
            raise RuntimeError("unforeseen")
        return super().read(yaml, profiles, agent_id)


@pytest.fixture
def entries() -> Entries:
    return Entries()


@pytest.fixture
def database(store: FailingStore, agents: AgentManager, entries: Entries) -> DatabaseAgents:
    async def close(ids: Collection[str]) -> None:
        pass

    return DatabaseAgents(store.as_store, agents, entries, SETTINGS, close, lambda: None)


async def save(store: FailingStore) -> None:
    record = AgentVersionRecord(
        id=version_id("helper", 1),
        agent_id="helper",
        version=1,
        action="created",
        author="ada",
        at=datetime.now(UTC),
        enabled=True,
        yaml=entry(),
    )
    assert await store.real.add_agent_versions([record], 50)


def served(agents: AgentManager) -> list[str]:
    return [agent.settings.id for agent in agents.served()]


async def test_a_new_agent_leaves_what_kept_a_reload_of_the_file_from_being_served(
    store: FailingStore, agents: AgentManager, database: DatabaseAgents
) -> None:
    agents.reload_ended(["agents_catalog.yaml:6:5: wrong"])
    await save(store)
    await database.refresh()
    assert served(agents) == ["filed", "helper"]
    assert agents.reload_problems(ADMIN) == ["agents_catalog.yaml:6:5: wrong"]


async def test_what_is_to_be_imported_anew_is_so_once_the_store_is_back(
    store: FailingStore, database: DatabaseAgents, entries: Entries
) -> None:
    await save(store)
    await database.refresh()
    await database.refresh()
    assert entries.read_count == 1
    with store.away():
        await database.refresh_if_possible(anew=True)
    await database.refresh_if_possible()
    assert entries.read_count == 2


async def test_an_error_ends_neither_the_start_nor_a_reload_nor_the_loop(
    store: FailingStore, agents: AgentManager, database: DatabaseAgents, entries: Entries
) -> None:
    await save(store)
    entries.breaks = True
    await database.refresh_if_possible()
    await database.refresh_if_possible(anew=True)
    following = asyncio.create_task(database.run())
    try:
        await asyncio.sleep(0.2)
        assert served(agents) == ["filed"] and not following.done()
        entries.breaks = False
        async with asyncio.timeout(10):
            while served(agents) != ["filed", "helper"]:
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
        await asyncio.wait({following})
