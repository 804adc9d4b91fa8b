"""Lasting graphs: subgraphs with a memory of their own (`checkpointer=True`), which goes on within a session.

LangGraph stores their checkpoints under a namespace without the ids of tasks, so that the next run of the thread finds
them. A session keeps these checkpoints of a run, and the next run begins with them.
"""

import logging
from collections.abc import Mapping

from langgraph.checkpoint.base.id import uuid6
from langgraph.pregel import Pregel

from agentic_backend.agents.state.channel_forms import Graph, forms_of
from agentic_backend.agents.state.kept_state import opened, unstorable, warn_of_misfit
from agentic_backend.agents.state.snapshot import Snapshot, Stored
from agentic_backend.agents.state.state_serializer import StateSerializer, serializer
from agentic_backend.errors import StateRefused

log = logging.getLogger(__name__)

_MOST_BYTES = 4 * 1024 * 1024
"""The maximum packed size of what is kept of an agent's lasting graphs."""


def lasting(snapshot: Snapshot) -> Snapshot | None:
    """The checkpoints of the graphs that outlive the tasks that run them; None if there are none."""
    checkpoints = {place: stored for place, stored in snapshot.checkpoints.items() if place[0] and ":" not in place[0]}
    writes = {place: written for place, written in snapshot.writes.items() if place in checkpoints}
    return snapshot._replace(checkpoints=checkpoints, writes=writes, spent=()) if checkpoints else None


def pack_lasting(snapshot: Snapshot, graph: Graph, agent_id: str) -> bytes | None:
    """`snapshot`, a result of `lasting`, as bytes; None, and a warning, if it is too large or can't be serialized."""
    subgraphs = _subgraphs(graph)
    forms: dict[str, dict[str, str]] = {}
    for (namespace, _), stored in snapshot.checkpoints.items():
        if (subgraph := subgraphs.get(_path(namespace))) is not None:
            names = stored.checkpoint["channel_values"].keys() & subgraph.channels.keys()
            forms[namespace] = forms_of(subgraph, sorted(names))
    try:
        packed = serializer.dumps_typed({"forms": forms, "snapshot": snapshot.pack()})[1]
    except (TypeError, ValueError) as error:
        log.warning("subgraph memory not serializable", extra={"agent_id": agent_id, **unstorable(error)})
        return None
    if len(packed) > _MOST_BYTES:
        log.warning("subgraph memory too large", extra={"agent_id": agent_id, "bytes": len(packed)})
        return None
    return packed


def unpack_lasting(packed: bytes, graph: Graph, agent_id: str, serde: StateSerializer = serializer) -> Snapshot | None:
    """The checkpoints in the result of `pack_lasting`, as the first of a run; None if they can't be read.

    A channel whose value no longer fits its type is left out, with a warning: it begins anew. Raises StateRefused, as
    `restore` does.
    """
    try:
        values = serializer.loads_typed(("msgpack", packed))
        old, forms = Snapshot.unpack(values["snapshot"]), values["forms"]
        subgraphs = _subgraphs(graph)
        for (namespace, _), stored in old.checkpoints.items():
            if (subgraph := subgraphs.get(_path(namespace))) is not None:
                _leave_out_misfits(stored, subgraph, forms.get(namespace, {}), agent_id, serde)
        return _with_new_ids(old)
    except StateRefused:
        raise
    except Exception:
        # Whatever the bytes are, the subgraphs can begin anew.
        log.warning("subgraph memory not readable", exc_info=True, extra={"agent_id": agent_id})
        return None


def _leave_out_misfits(
    stored: Stored, graph: Graph, forms: Mapping[str, str], agent_id: str, serde: StateSerializer
) -> None:
    values = stored.checkpoint["channel_values"]
    for name in values.keys() & graph.channels.keys():
        if not opened(graph, name, values[name], forms.get(name), serde)[0]:
            del values[name]
            stored.checkpoint["channel_versions"].pop(name, None)
            warn_of_misfit(agent_id, name)


def _with_new_ids(old: Snapshot) -> Snapshot:
    """The snapshot with newer ids, in the same order: those of the next run must be higher than these, also if it runs
    on another machine, whose clock is behind.
    """
    ids = {checkpoint_id: str(uuid6(clock_seq=-2)) for checkpoint_id in sorted(place[1] for place in old.checkpoints)}
    checkpoints = {
        (namespace, ids[checkpoint_id]): Stored(
            {**stored.checkpoint, "id": ids[checkpoint_id]}, stored.metadata, ids.get(stored.parent_id or "")
        )
        for (namespace, checkpoint_id), stored in old.checkpoints.items()
    }
    writes = {(namespace, ids[checkpoint_id]): written for (namespace, checkpoint_id), written in old.writes.items()}
    return old._replace(checkpoints=checkpoints, writes=writes)


def _subgraphs(graph: Graph) -> dict[str, Graph]:
    """The subgraphs that LangGraph finds in the nodes, by the names of the nodes."""
    inner = graph.get_subgraphs(recurse=True)
    return {path: subgraph for path, subgraph in inner if isinstance(subgraph, Pregel)}


def _path(namespace: str) -> str:
    """The names of the nodes in a lasting graph's namespace, without the numbers of repeated calls."""
    return "|".join(part for part in namespace.split("|") if not part.isdigit())
