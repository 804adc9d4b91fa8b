"""The calls of admins that keep agents in the database, beside those of the YAML catalog. See AdminGate."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field
from starlette.responses import Response

from agentic_backend.agents.catalog.catalog_schema import catalog_schema
from agentic_backend.auth.user import User
from agentic_backend.config.yaml.located_yaml import ConfigProblem
from agentic_backend.errors import AgentConflict, AgentInvalid, AgentNotFound, AgentUnavailable, BadFrame, LimitReached
from agentic_backend.protocol.events import Problem
from agentic_backend.protocol.frames import Frame, JsonInteger
from agentic_backend.protocol.messages import Timestamp
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.sessions.agents.agent_admin import AdministeredAgent, AgentAdmin
from agentic_backend.stores.protocol.agent_versions import AgentVersionRecord, VersionAction
from agentic_backend.transports.rest.operation import PREFIX, Operation, Streamed
from agentic_backend.transports.rest.query_string import Cursor, PageSize, Query

_HIGHEST_VERSION = 2**53
_CLASS = "agentic_backend.experts.assistant.assistant:Assistant"
AgentYaml = Annotated[str, Field(repr=False, examples=[f"id: helper\nclass_path: {_CLASS}\n"])]


class AgentText(Frame):
    """The entry of one agent as YAML."""

    yaml: AgentYaml


class ChangedAgent(Frame):
    """The entry as YAML, and the version that it was made of."""

    yaml: AgentYaml
    version: JsonInteger = Field(ge=1, le=_HIGHEST_VERSION)


class CatalogText(Frame):
    """A whole catalog as YAML, with its list `agents`."""

    yaml: Annotated[str, Field(repr=False, examples=[f"agents:\n  - id: imported\n    class_path: {_CLASS}\n"])]


class RollBack(Frame):
    """The version that the agent is to be as again."""

    version: JsonInteger = Field(ge=1, le=_HIGHEST_VERSION)


class CatalogAgentView(Value):
    """An entry of the catalog. Those of the database have a version."""

    id: str
    source: Literal["yaml", "database"]
    enabled: bool
    served: bool
    hidden_by: Literal["yaml", "database"] | None = absent()
    """The source that has the same id, and wins."""
    version: int | None = absent()
    updated_at: Timestamp | None = absent()
    updated_by: str | None = absent()
    name: str
    icon: str | None = absent()
    description: str
    problems: list[Problem]

    @classmethod
    def of(cls, agent: AdministeredAgent, **more: Any) -> Self:
        version = agent.version
        return cls(
            id=agent.id,
            source=agent.source,
            enabled=agent.is_enabled,
            served=agent.is_served,
            hidden_by=agent.hidden_by,
            version=None if version is None else version.version,
            updated_at=None if version is None else version.at,
            updated_by=None if version is None else version.author,
            name=agent.name,
            icon=agent.icon,
            description=agent.description,
            problems=_problems(agent.problems),
            **more,
        )


class CatalogAgentText(CatalogAgentView):
    """An entry with its text; of the YAML catalog without secrets and comments."""

    yaml: AgentYaml


class CatalogAgentsView(Value):
    """The agents of both sources. `editable`: whether the database may have any."""

    agents: list[CatalogAgentView]
    wins: Literal["yaml", "database"]
    editable: bool


class AgentVersionView(Value):
    version: int
    action: VersionAction
    author: Annotated[str, Field(examples=["ada"])]
    timestamp: Timestamp

    @classmethod
    def of(cls, record: AgentVersionRecord, **more: Any) -> Self:
        return cls(version=record.version, action=record.action, author=record.author, timestamp=record.at, **more)


class AgentVersionText(AgentVersionView):
    """A version with its text."""

    yaml: AgentYaml


class AgentVersionsView(Value):
    """A page of versions, the newest first. `next_cursor` is for the next page, and absent on the last one."""

    versions: list[AgentVersionView]
    next_cursor: str | None = absent()


class ProblemsView(Value):
    """What is wrong with a text; none if it can be saved."""

    problems: list[Problem]


class PageOfVersions(Query):
    limit: Annotated[int, PageSize(50)] = 20
    cursor: Cursor | None = None


_Catalog = Annotated[
    dict[str, Any],
    Field(description="A catalog.", examples=[{"agents": [{"id": "helper", "class_path": _CLASS}]}]),
]
_Schema = Annotated[
    dict[str, Any],
    Field(description="A JSON Schema.", examples=[{"$schema": "https://json-schema.org/draft/2020-12/schema"}]),
]


class AdminAgentsApi:
    def __init__(self, admin: AgentAdmin) -> None:
        self._admin = admin

    def operations(self) -> list[Operation]:
        path, known = f"{PREFIX}/admin/agents", AgentNotFound
        one, changing = f"{path}/{{id}}", (AgentNotFound, AgentConflict)
        schema = Streamed("application/json", _Schema)
        # That of one whose code does not end while it is imported.
        checking = (AgentUnavailable,)
        adding = (AgentConflict, AgentInvalid, LimitReached, *checking)
        return [
            Operation("GET", path, self.list_catalog_agents),
            Operation("POST", path, self.create_agent, status=201, errors=adding),
            Operation("POST", f"{path}/check", self.check_agent, errors=checking),
            Operation("POST", f"{path}/import", self.import_agents, errors=adding),
            Operation("GET", f"{path}/export", self.export_agents, answer=Streamed("application/yaml", _Catalog)),
            Operation("GET", f"{path}/schema", self.get_catalog_schema, answer=schema),
            Operation("GET", one, self.get_catalog_agent, errors=(known,)),
            Operation("PUT", one, self.change_agent, errors=(*changing, AgentInvalid, *checking)),
            Operation("DELETE", one, self.delete_agent, errors=changing),
            Operation("GET", f"{one}/versions", self.list_agent_versions, errors=(known,)),
            Operation("GET", f"{one}/versions/{{version}}", self.get_agent_version, errors=(known,)),
            Operation(
                "POST",
                f"{one}/rollback",
                self.roll_agent_back,
                errors=(*changing, AgentInvalid, LimitReached, *checking),
            ),
            Operation("POST", f"{one}/enable", self.enable_agent, errors=(*changing, AgentInvalid, *checking)),
            Operation("POST", f"{one}/disable", self.disable_agent, errors=changing),
        ]

    async def list_catalog_agents(self) -> CatalogAgentsView:
        """The agents of the YAML catalog and of the database, also those that are not served."""
        agents = [CatalogAgentView.of(agent) for agent in await self._admin.agents()]
        return CatalogAgentsView(agents=agents, wins=self._admin.wins, editable=self._admin.is_on)

    async def get_catalog_agent(self, id: str) -> CatalogAgentText:
        """An agent with its entry: that of the database, where it has one."""
        return await self._shown(id)

    async def create_agent(self, user: User, body: AgentText) -> CatalogAgentText:
        """A new agent in the database, which is served at once."""
        return await self._shown(await self._admin.create(user.id, body.yaml))

    async def change_agent(self, id: str, user: User, body: ChangedAgent) -> CatalogAgentText:
        """Change an agent of the database; refused if it is no longer at `version`."""
        await self._admin.change(user.id, id, body.yaml, body.version)
        return await self._shown(id)

    async def delete_agent(self, id: str, user: User) -> None:
        """Delete an agent of the database. Its versions stay, and it can be rolled back to one of them."""
        await self._admin.delete(user.id, id)

    async def enable_agent(self, id: str, user: User) -> CatalogAgentText:
        """Serve an agent of the database again."""
        await self._admin.switch(user.id, id, True)
        return await self._shown(id)

    async def disable_agent(self, id: str, user: User) -> CatalogAgentText:
        """Take an agent of the database out of service."""
        await self._admin.switch(user.id, id, False)
        return await self._shown(id)

    async def roll_agent_back(self, id: str, user: User, body: RollBack) -> CatalogAgentText:
        """Make an agent of the database as it was at a version, in a new version."""
        await self._admin.roll_back(user.id, id, body.version)
        return await self._shown(id)

    async def list_agent_versions(self, id: str, query: PageOfVersions) -> AgentVersionsView:
        """The versions of an agent of the database, also of a deleted one, the newest first."""
        if query.cursor is not None and not _is_number(query.cursor):
            raise BadFrame("cursor: expected the next_cursor of a page")
        below = None if query.cursor is None else int(query.cursor)
        found, has_more = await self._admin.versions(id, below, query.limit)
        cursor = str(found[-1].version) if has_more else None
        return AgentVersionsView(versions=[AgentVersionView.of(each) for each in found], next_cursor=cursor)

    async def get_agent_version(self, id: str, version: str) -> AgentVersionText:
        """A version of an agent of the database, with its entry."""
        if not _is_number(version):
            raise AgentNotFound("There is no such version of the agent.")
        record = await self._admin.version(id, int(version))
        return AgentVersionText.of(record, yaml=record.yaml)

    async def check_agent(self, body: AgentText) -> ProblemsView:
        """What saving an entry would refuse. Nothing is stored."""
        return ProblemsView(problems=_problems(await self._admin.check(body.yaml)))

    async def export_agents(self) -> Response:
        """All agents of the database as a catalog file."""
        headers = {"cache-control": "no-store", "content-disposition": 'attachment; filename="agents_catalog.yaml"'}
        return Response(await self._admin.exported(), headers=headers, media_type="application/yaml")

    async def import_agents(self, user: User, body: CatalogText) -> CatalogAgentsView:
        """Create or change all agents of a catalog file in the database, or none of them."""
        await self._admin.import_(user.id, body.yaml)
        return await self.list_catalog_agents()

    async def get_catalog_schema(self) -> Response:
        """The JSON Schema of a catalog file, for an editor; that of an entry is `$defs.AgentSettings`."""
        return Response(self._schema, headers={"cache-control": "no-store"}, media_type="application/json")

    @cached_property
    def _schema(self) -> str:
        return json.dumps(catalog_schema(self._admin.keys))

    async def _shown(self, agent_id: str) -> CatalogAgentText:
        agent, text = await self._admin.agent(agent_id)
        return CatalogAgentText.of(agent, yaml=text)


def _problems(problems: Sequence[ConfigProblem]) -> list[Problem]:
    return [Problem(message=each.message, line=each.line, column=each.column) for each in problems]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 16
