"""The versions of agents in MongoDB. The unique `_id` of a version decides which of its writers wins; `revision` of the
document `agents` in `meta` counts the changes.
"""

from collections.abc import Sequence

from agentic_backend.stores.mongo.documents import Database, Document, document, record_in
from agentic_backend.stores.mongo.driver import inserted
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.protocol.agent_versions import AgentVersionRecord
from agentic_backend.stores.tables import AGENT_VERSIONS

_ID = {"_id": "agents"}


class AgentVersions(Part):
    @operation
    async def agents_revision(self, database: Database) -> int:
        counted = await database["meta"].find_one(_ID)
        return 0 if counted is None else int(counted["revision"])

    @operation
    async def latest_agent_versions(self, database: Database) -> list[AgentVersionRecord]:
        versions = database["agent_versions"]
        # The highest version of an agent comes last, and so stays.
        found = await versions.find({}, {"agent_id": 1}).sort([("agent_id", 1), ("version", 1)]).to_list(None)
        latest = {each["agent_id"]: each["_id"] for each in found}
        return await _found(database, {"_id": {"$in": list(latest.values())}}, [("agent_id", 1)])

    @operation
    async def agent_version(
        self, database: Database, agent_id: str, version: int | None = None
    ) -> AgentVersionRecord | None:
        which = {"agent_id": agent_id} if version is None else {"agent_id": agent_id, "version": version}
        found = await _found(database, which, [("version", -1)], 1)
        return found[0] if found else None

    @operation
    async def agent_versions(
        self, database: Database, agent_id: str, below: int | None, limit: int
    ) -> list[AgentVersionRecord]:
        which: Document = {"agent_id": agent_id}
        if below is not None:
            which["version"] = {"$lt": below}
        return await _found(database, which, [("version", -1)], limit)

    @operation
    async def add_agent_versions(self, database: Database, versions: Sequence[AgentVersionRecord], kept: int) -> bool:
        stored: list[str] = []
        for each in versions:
            if not await inserted(database["agent_versions"].insert_one(document(AGENT_VERSIONS, each))):
                await database["agent_versions"].delete_many({"_id": {"$in": stored}})
                return False
            stored.append(each.id)
        for each in versions:
            if each.version > kept:
                old = {"agent_id": each.agent_id, "version": {"$lte": each.version - kept}}
                await database["agent_versions"].delete_many(old)
        await _count(database)
        return True

    @operation
    async def forget_agent(self, database: Database, agent_id: str, last_version: int) -> None:
        await database["agent_versions"].delete_many({"agent_id": agent_id, "version": {"$lte": last_version}})
        await _count(database)


async def _found(
    database: Database, which: Document, order: list[tuple[str, int]], limit: int = 0
) -> list[AgentVersionRecord]:
    rows = await database["agent_versions"].find(which).sort(order).limit(limit).to_list(None)
    return [record_in(AGENT_VERSIONS, row) for row in rows]


async def _count(database: Database) -> None:
    # Of two that make the document at once, one is refused, and counts again.
    while not await inserted(database["meta"].update_one(_ID, {"$inc": {"revision": 1}}, upsert=True)):
        pass
