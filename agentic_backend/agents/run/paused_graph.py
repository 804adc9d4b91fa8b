"""PausedGraph: a graph between two steps, as its checkpoints tell of it: its breakpoints, and what it can't go on with.

A breakpoint (`interrupt_before`, `interrupt_after`) leaves no interrupt in a checkpoint. It is known by comparing what
the graph is about to run with what it has been let past. A run that continues passes it, so it is looked for before.
"""

import copy
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.pregel import Pregel
from langgraph.types import Interrupt, Send, StateSnapshot

from agentic_backend.agents.state.channel_forms import Graph
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.state.snapshot import Place

_BREAKPOINT = "breakpoint-"
_INTERRUPT, _SENDS = "__interrupt__", "__pregel_tasks"
# The channels by which a StateGraph triggers its nodes.
_TRIGGER = re.compile(r"(?:branch:to|join:[^:]*):(?P<node>.*)", re.DOTALL)


def is_breakpoint(interrupt_id: str) -> bool:
    """Whether the id is that of a breakpoint; LangGraph's own ids are hex."""
    return interrupt_id.startswith(_BREAKPOINT)


class PausedGraph:
    def __init__(self, graph: Graph, checkpoints: ExchangeCheckpoints, passed: Collection[str] = ()) -> None:
        """`passed` are the ids of the breakpoints that the run has been let past."""
        self._graph = copy.copy(graph)
        self._graph.checkpointer = checkpoints
        self._checkpoints = checkpoints
        self._passed = passed

    async def breakpoints(self, *, has_paused: bool = False) -> list[Interrupt]:
        """The breakpoints at which the graph and its subgraphs stand, outer graphs first, without those it has passed.

        Each has the value `{"before": [nodes]}`. Their ids are the same in every process.

        `has_paused`: the graph has paused at one, perhaps of a graph that only the code of a node knows.
        """
        graphs = self._graphs()
        if not has_paused and not any(
            one.interrupt_before_nodes or one.interrupt_after_nodes for one in graphs.values()
        ):
            return []
        config = RunnableConfig(configurable={"thread_id": self._checkpoints.run_id})
        state = await self._graph.aget_state(config, subgraphs=True)
        found = [
            _breakpoint(level, path, [place])
            for level, path, place in _levels(state)
            if (graph := graphs.get(path)) is not None and self._stands_before_or_after(graph, level, place)
        ]
        found = [one for one in found if one.id not in self._passed]
        return found or ([_breakpoint(state, "", self._checkpoints.latest)] if has_paused else [])

    def missing_nodes(self) -> list[str]:
        """The names of the nodes that the run was about to go on with, and that the graph does not have."""
        graphs = self._graphs()
        missing: dict[str, None] = {}
        for namespace, checkpoint_id in self._checkpoints.latest:
            # Of a graph that only the code of a node knows, nobody knows the nodes.
            if (graph := graphs.get(_path(namespace))) is not None:
                pending = self._pending((namespace, checkpoint_id))
                missing |= dict.fromkeys(node for node in pending if node not in graph.nodes and node != END)
        return list(missing)

    def _graphs(self) -> dict[str, Graph]:
        """The graph and its subgraphs, by the names of their nodes."""
        inner = self._graph.get_subgraphs(recurse=True)
        return {"": self._graph, **{path: graph for path, graph in inner if isinstance(graph, Pregel)}}

    def _stands_before_or_after(self, graph: Graph, state: StateSnapshot, place: Place) -> bool:
        """Whether the graph pauses at this checkpoint, by the rules of LangGraph (`should_interrupt`)."""
        checkpoint = self._checkpoints.stored(place).checkpoint
        versions, seen = checkpoint["channel_versions"], checkpoint["versions_seen"]
        passed = seen.get(_INTERRUPT, {})
        if not any(version > passed.get(channel, 0) for channel, version in versions.items()):  # type: ignore[operator]
            return False
        # The tasks of a step see the last version before the one that they make.
        before = max(versions.values()) - 1  # type: ignore[operator]
        ran = [node for node, versions in seen.items() if node != _INTERRUPT and before in versions.values()]
        runs_next = [task.name for task in state.tasks]
        return _names_any(graph.interrupt_before_nodes, runs_next) or _names_any(graph.interrupt_after_nodes, ran)

    def _pending(self, place: Place) -> Iterator[str]:
        values = self._checkpoints.stored(place).checkpoint["channel_values"]
        for channel in values:
            if (trigger := _TRIGGER.fullmatch(channel)) is not None:
                yield trigger["node"]
        for send in self._checkpoints.value(place, _SENDS) or ():
            if isinstance(send, Send):
                yield send.node


def _levels(state: StateSnapshot, path: str = "") -> Iterator[tuple[StateSnapshot, str, Place]]:
    """The states of a graph and of the subgraphs that its tasks run, each with its path and its checkpoint."""
    place = state.config["configurable"]
    if "checkpoint_id" in place:
        yield state, path, (place.get("checkpoint_ns", ""), place["checkpoint_id"])
    for task in state.tasks:
        if isinstance(task.state, StateSnapshot):
            yield from _levels(task.state, f"{path}|{task.name}" if path else task.name)


def _names_any(nodes: Sequence[str], names: Iterable[str]) -> bool:
    """Whether `nodes`, which may be the word `*`, name one of `names`. LangGraph's own nodes begin with `__`."""
    return any(not name.startswith("__") if nodes == "*" else name in nodes for name in names)


def _breakpoint(state: StateSnapshot, path: str, places: Iterable[Place]) -> Interrupt:
    at = hashlib.sha256(repr(sorted(places)).encode()).hexdigest()[:32]
    nodes = [f"{path}|{name}" if path else name for name in dict.fromkeys(state.next)]
    return Interrupt(
        {"before": [node.replace("|", "/") for node in nodes] or [END]},
        id=f"{_BREAKPOINT}{at}",
        response_schema={"type": "boolean"},
    )


def _path(namespace: str) -> str:
    """The names of the nodes in a graph's namespace, without the ids of their tasks."""
    parts = (part.partition(":")[0] for part in namespace.split("|"))
    return "|".join(part for part in parts if not part.isdigit())
