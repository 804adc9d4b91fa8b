"""Activities: a graph's events beside its messages: changes of the speaking agent, handoffs and progress."""

from collections.abc import Mapping
from typing import Any

import orjson

from agentic_backend.agents.delegation import Handoff
from agentic_backend.normal_form import clean
from agentic_backend.streaming.content import bounded, plain
from agentic_backend.streaming.drafts import ActivityDraft, Draft

LONGEST_PROGRESS = 65_536
"""Bytes of JSON of one progress event."""

_BEGINNING = 1_000
_HANDOFFS = ("transfer_back_to_", "transfer_to_")


class Speaker:
    """Tracks which agent within a graph speaks."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        # The name of the agent that speaks now; empty for the root graph.
        self._name = ""

    def switch(self, namespace: tuple[str, ...], metadata: Mapping[str, Any]) -> list[Draft]:
        """Note that a model speaks in the graph at `namespace`; an `agent_switch` if another agent spoke before."""
        name = ""
        if namespace:
            name = clean(str(metadata.get("lc_agent_name") or namespace[0].partition(":")[0]))
        if name == self._name:
            return []
        before, self._name = self._name, name
        return [ActivityDraft("agent_switch", {"from": before or self._agent_id, "to": name or self._agent_id})]

    def handoff(self, tool: str) -> list[Draft]:
        """A `handoff` if `tool`, which has given its result, is a handoff tool."""
        prefix = next((prefix for prefix in _HANDOFFS if tool.startswith(prefix)), None)
        if prefix is None:
            return []
        return [ActivityDraft("handoff", {"from": self._name or self._agent_id, "to": tool.removeprefix(prefix)})]


def activity_of(payload: Any) -> ActivityDraft:
    """The activity for a payload of LangGraph's stream writer: a leader's handoff, or progress.

    Progress beyond LONGEST_PROGRESS is shortened to its beginning, as text.
    """
    if isinstance(payload, Handoff):
        return ActivityDraft("handoff", {"from": clean(payload.origin), "to": clean(payload.target)})
    data = plain(payload) if isinstance(payload, Mapping) else plain({"value": payload})
    told = orjson.dumps(data)
    if len(told) > LONGEST_PROGRESS:
        data = {"shortened": bounded(told.decode(), _BEGINNING)}
    return ActivityDraft("progress", data)


def server_tool(name: str) -> ActivityDraft:
    """The progress for a tool that a model's provider runs by itself."""
    return ActivityDraft("progress", {"tool": name, "by": "provider"})
