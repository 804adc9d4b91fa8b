"""Speaker: who within a graph speaks, and to whom it hands over."""

from collections.abc import Mapping
from typing import Any

from agentic_backend.streaming.content import clean
from agentic_backend.streaming.drafts import ActivityDraft, Draft

_HANDOFFS = ("transfer_back_to_", "transfer_to_")


class Speaker:
    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._name = ""
        """Empty for the graph itself."""

    def switch(self, namespace: tuple[str, ...], metadata: Mapping[str, Any]) -> list[Draft]:
        """A model begins to speak in the graph at `namespace`; what is told where another one did before."""
        name = ""
        if namespace:
            name = clean(str(metadata.get("lc_agent_name") or namespace[0].partition(":")[0]))
        if name == self._name:
            return []
        before, self._name = self._name, name
        return [ActivityDraft("agent_switch", {"from": before or self._agent_id, "to": name or self._agent_id})]

    def handoff(self, tool: str) -> list[Draft]:
        """What is told of a tool that has given its result, where it is one that hands over."""
        prefix = next((prefix for prefix in _HANDOFFS if tool.startswith(prefix)), None)
        if prefix is None:
            return []
        return [ActivityDraft("handoff", {"from": self._name or self._agent_id, "to": tool.removeprefix(prefix)})]
