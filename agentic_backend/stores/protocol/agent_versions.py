"""The versions of the agents that the catalog in the database has: a log for each agent, which only grows.

An agent is what its last version says. Deleting it is a version too, so it can be rolled back. Of two writers of one
version the store lets one win, so that nobody overwrites what they haven't seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

VersionAction = Literal["created", "changed", "enabled", "disabled", "rolled_back", "deleted", "imported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentVersionRecord:
    id: str
    """See `version_id`."""
    agent_id: str
    version: int
    """Counts from 1."""
    action: VersionAction
    author: str
    """The user's id."""
    at: datetime
    enabled: bool
    yaml: str = field(repr=False)
    """The text of the entry, also of a deleted one."""

    @property
    def is_deleted(self) -> bool:
        return self.action == "deleted"


def version_id(agent_id: str, version: int) -> str:
    return f"{agent_id}@{version}"


class AgentVersionStore(Protocol):
    """The operations of a Store on the versions of agents."""

    async def agents_revision(self) -> int:
        """A number that changes with each change of any agent, and is cheap to read.

        A writer that dies may leave it as it was, on a store without transactions.
        """
        ...

    async def latest_agent_versions(self) -> list[AgentVersionRecord]:
        """The last version of every agent, deleted ones too, by id."""
        ...

    async def agent_version(self, agent_id: str, version: int | None = None) -> AgentVersionRecord | None:
        """This version of the agent, or its last one; None if it isn't there."""
        ...

    async def agent_versions(self, agent_id: str, below: int | None, limit: int) -> list[AgentVersionRecord]:
        """At most `limit` versions of the agent, those below `below`, the newest first."""
        ...

    async def add_agent_versions(self, versions: Sequence[AgentVersionRecord], kept: int) -> bool:
        """Store the versions, each of another agent, all or none, and forget all but the last `kept` of each agent.

        False, with nothing stored, if one of them is there already. A store without transactions that is cut off may
        have stored the first ones.
        """
        ...

    async def forget_agent(self, agent_id: str, last_version: int) -> None:
        """Delete the versions of the agent up to `last_version`; one that has come since stays."""
        ...
