"""`configurable` of LangGraph's config, as LangGraph Platform gives it.

Functions that make graphs find it in their config, and so do nodes and tools. It never has a token: checkpoints and
traces may show it.
"""

from collections.abc import Mapping
from typing import Any

from agentic_backend.agents.runtime_context import RuntimeContext

_LANGGRAPHS_OWN = frozenset({"checkpoint_id", "checkpoint_map", "checkpoint_ns", "run_id", "task_id", "thread_ts"})
"""Names by which LangGraph finds its checkpoints and tasks; so are all that begin with `__`."""


class GraphUser(dict[str, Any]):
    """A user in the form of LangGraph Platform, whose fields are attributes too."""

    def __init__(self, user_id: str) -> None:
        super().__init__(identity=user_id, display_name=user_id, is_authenticated=True, permissions=[])

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def configurable(fields: Mapping[str, Any], context: RuntimeContext) -> dict[str, Any]:
    """The catalog's `fields`, and whom and what the graph works for, which no field replaces."""
    user = GraphUser(context.user_id)
    return {
        **{name: value for name, value in fields.items() if name not in _LANGGRAPHS_OWN and not name.startswith("__")},
        **context.configurable,
        "assistant_id": context.agent_id,
        "graph_id": context.agent_id,
        "langgraph_auth_user": user,
        "langgraph_auth_user_id": user["identity"],
    }
