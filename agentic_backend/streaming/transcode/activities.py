"""Activities: a graph's events beside its messages: changes of the speaking agent, handoffs and progress."""

from collections.abc import Mapping
from typing import Any, Literal

import orjson

from agentic_backend.agents.delegation import Handoff
from agentic_backend.streaming.content.conversion import bounded, plain
from agentic_backend.streaming.transcode.drafts import ActivityDraft, Draft
from agentic_backend.text.normal_form import clean

LONGEST_PROGRESS = 65_536
"""Bytes of JSON of one progress event."""

Names = Mapping[str, str]
"""What people call the agents of the catalog, by id; without those that have no name of their own."""

_NO_NAMES: Names = {}
_BEGINNING = 1_000
_HANDOFFS = ("transfer_back_to_", "transfer_to_")


class Speaker:
    """Tracks which agent within a graph speaks."""

    def __init__(self, agent_id: str, names: Names) -> None:
        self._agent_id = agent_id
        self._names = names
        self._name = ""
        """The name of the agent that speaks now; empty for the root graph."""

    def switch(self, namespace: tuple[str, ...], metadata: Mapping[str, Any]) -> list[Draft]:
        """Note that a model speaks in the graph at `namespace`; an `agent_switch` if another agent spoke before."""
        name = ""
        if namespace:
            name = clean(str(metadata.get("lc_agent_name") or namespace[0].partition(":")[0]))
        if name == self._name:
            return []
        before, self._name = self._name, name
        return [_move("agent_switch", before or self._agent_id, name or self._agent_id, self._names)]

    def handoff(self, tool: str) -> list[Draft]:
        """A `handoff` if `tool`, which has given its result, is a handoff tool."""
        prefix = next((prefix for prefix in _HANDOFFS if tool.startswith(prefix)), None)
        if prefix is None:
            return []
        return [_move("handoff", self._name or self._agent_id, tool.removeprefix(prefix), self._names)]


def activity_of(payload: Any, names: Names = _NO_NAMES) -> ActivityDraft:
    """The activity for a payload of LangGraph's stream writer: a leader's handoff, or progress.

    Progress beyond LONGEST_PROGRESS is shortened to its beginning, as text.
    """
    if isinstance(payload, Handoff):
        return _move("handoff", clean(payload.origin), clean(payload.target), names)
    data = plain(payload) if isinstance(payload, Mapping) else plain({"value": payload})
    told = orjson.dumps(data)
    if len(told) > LONGEST_PROGRESS:
        data = {"shortened": bounded(told.decode(), _BEGINNING)}
    return ActivityDraft("progress", data)


def _move(kind: Literal["agent_switch", "handoff"], origin: str, target: str, names: Names) -> ActivityDraft:
    sides = {"from": origin, "to": target}
    named = {f"{side}_name": names[agent] for side, agent in sides.items() if agent in names}
    return ActivityDraft(kind, {**sides, **named})


def server_tool(name: str) -> ActivityDraft:
    """The progress for a tool that a model's provider runs by itself."""
    return ActivityDraft("progress", {"tool": name, "by": "provider"})
