"""The LangGraph checkpoints of one run: where its graphs are, so that it can go on from there at any moment.

A run starts from what the graph kept of the exchange before (see kept_state), and puts its checkpoints here as they
are, where they cost next to nothing until they are packed. Packed, they are bytes that the store keeps, whichever it
is; unpacked in another process, they continue the same run: a task of a graph that has ended does not run again.

Of each graph only its last checkpoint and what its tasks have written since are kept; with a DeltaChannel, which is
stored as its changes, also those before it back to the channel's last whole value.
"""

import itertools
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    copy_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    writes_sort_key,
)
from langgraph.types import Interrupt

from agentic_backend.agents.kept_state import serialized, serializer
from agentic_backend.errors import CheckpointMissing

_VERSION = 2
_INTERRUPT = "__interrupt__"


class _Serialized(NamedTuple):
    """A value that came in a pack. It is read when a graph asks, which gives `serde` the types of its state before."""

    form: str
    data: bytes


class _Write(NamedTuple):
    task_id: str
    channel: str
    value: Any
    task_path: str


class _Stored(NamedTuple):
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_id: str | None


_Place = tuple[str, str]
"""The namespace of a graph, and the id of its checkpoint."""
_Writes = dict[tuple[str, int], _Write]


class Snapshot(NamedTuple):
    """The checkpoints at one moment, by reference: taken at once, packed at leisure, in a thread."""

    thread_id: str
    checkpoints: Sequence[tuple[str, _Stored]]
    writes: Sequence[tuple[_Place, _Writes]]

    def pack(self) -> bytes:
        """All that is needed to go on. Raises TypeError or ValueError where a graph holds what can't be serialized."""
        checkpoints = [
            (
                namespace,
                serializer.dumps_typed({**checkpoint, "channel_values": {}}),
                {name: _dumped(value) for name, value in checkpoint["channel_values"].items()},
                serializer.dumps_typed(metadata),
                parent_id,
            )
            for namespace, (checkpoint, metadata, parent_id) in self.checkpoints
        ]
        writes = [
            (place, [(key, (task_id, channel, _dumped(value), path)) for key, (task_id, channel, value, path) in items])
            for place, items in ((place, written.items()) for place, written in self.writes)
        ]
        values = {"version": _VERSION, "thread_id": self.thread_id, "checkpoints": checkpoints, "writes": writes}
        return serializer.dumps_typed(values)[1]


class ExchangeCheckpoints(BaseCheckpointSaver[int]):
    """Serves one run, whose thread is `thread_id`. `kept` are the packed channels that it starts from."""

    def __init__(self, kept: bytes | None = None, *, thread_id: str = "") -> None:
        super().__init__(serde=serializer)
        self.thread_id = thread_id
        # Filled in place: LangGraph runs a graph with a shallow copy of its checkpointer.
        self._stored: dict[str, dict[str, _Stored]] = {}
        self._writes: dict[_Place, _Writes] = {}
        if kept is not None:
            self._keep(_first(serialized(kept)))

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The checkpoints that were packed. Raises CheckpointMissing where they are none of this version."""
        try:
            values = serializer.loads_typed(("msgpack", packed))
            if not isinstance(values, dict) or values.get("version") != _VERSION:
                raise CheckpointMissing
            checkpoints = cls(thread_id=values["thread_id"])
            for namespace, bare, channels, metadata, parent_id in values["checkpoints"]:
                checkpoint: Checkpoint = serializer.loads_typed(tuple(bare))
                checkpoint["channel_values"] = {name: _Serialized(*typed) for name, typed in channels.items()}
                stored = _Stored(checkpoint, serializer.loads_typed(tuple(metadata)), parent_id)
                checkpoints._stored.setdefault(namespace, {})[checkpoint["id"]] = stored
            for place, writes in values["writes"]:
                checkpoints._writes[tuple(place)] = {
                    tuple(key): _Write(task_id, channel, _Serialized(*typed), path)
                    for key, (task_id, channel, typed, path) in writes
                }
        except CheckpointMissing:
            raise
        except Exception as error:
            # Foreign bytes fail in as many ways as there are readers of parts of them.
            raise CheckpointMissing from error
        return checkpoints

    def snapshot(self) -> Snapshot:
        """Where the graphs are now."""
        checkpoints = [(name, one) for name, by_id in list(self._stored.items()) for one in list(by_id.values())]
        return Snapshot(self.thread_id, checkpoints, [(place, dict(one)) for place, one in list(self._writes.items())])

    def pack(self) -> bytes:
        return self.snapshot().pack()

    @property
    def interrupts(self) -> list[Interrupt]:
        """What the run waits for: the interrupts of those tasks of its root graph that have not ended."""
        latest = max(self._stored.get("", {}), default="")
        by_task: dict[str, list[_Write]] = {}
        for write in self._ordered_writes(("", latest)):
            by_task.setdefault(write.task_id, []).append(write)
        # A task that has ended has written to a channel of its graph; all others have names of LangGraph's own.
        asked = [
            self._loaded(write.value)
            for writes in by_task.values()
            if all(write.channel in WRITES_IDX_MAP for write in writes)
            for write in writes
            if write.channel == _INTERRUPT
        ]
        return [one for value in asked for one in (value if isinstance(value, list | tuple) else [value])]

    def values_of(self, channel: str) -> Iterator[tuple[str, Any]]:
        """All that graphs hold in `channel` and their tasks have written to it, oldest first, each with its namespace:
        outer graphs first.
        """
        for namespace, by_id in sorted(self._stored.items()):
            for checkpoint_id, stored in sorted(by_id.items()):
                if channel in stored.checkpoint["channel_values"]:
                    value = self._loaded(stored.checkpoint["channel_values"][channel])
                    # LangGraph wraps the whole value of a DeltaChannel.
                    yield namespace, getattr(value, "value", value)
                for write in self._ordered_writes((namespace, checkpoint_id)):
                    if write.channel == channel:
                        yield namespace, self._loaded(write.value)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        namespace = config["configurable"].get("checkpoint_ns", "")
        by_id = self._stored.get(namespace, {})
        stored = by_id.get(get_checkpoint_id(config) or max(by_id, default=""))
        if stored is None:
            return None
        checkpoint = copy_checkpoint(stored.checkpoint)
        values = checkpoint["channel_values"]
        checkpoint["channel_values"] = {name: self._loaded(value) for name, value in values.items()}
        writes = self._ordered_writes((namespace, checkpoint["id"]))
        return CheckpointTuple(
            self._place(namespace, checkpoint["id"]),
            checkpoint,
            stored.metadata.copy(),
            self._place(namespace, stored.parent_id) if stored.parent_id else None,
            [(write.task_id, write.channel, self._loaded(write.value)) for write in writes],
        )

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.get_tuple(config)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        namespace, parent_id = config["configurable"].get("checkpoint_ns", ""), get_checkpoint_id(config)
        self._stored.setdefault(namespace, {})[checkpoint["id"]] = _Stored(checkpoint, metadata, parent_id)
        self._forget(namespace, checkpoint["id"])
        return self._place(namespace, checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self.put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        configurable = config["configurable"]
        place = (configurable.get("checkpoint_ns", ""), configurable["checkpoint_id"])
        kept = self._writes.setdefault(place, {})
        before = set(kept)
        for index, (channel, value) in enumerate(writes):
            key = (task_id, WRITES_IDX_MAP.get(channel, index))
            # What a task has written stays; what has a place of its own, such as an interrupt, is replaced.
            if key[1] < 0 or key not in before:
                kept[key] = _Write(task_id, channel, value, task_path)

    def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> Coroutine[Any, Any, None]:
        """Done when it is called, not when it is awaited: LangGraph tells of a task's end right after it has called
        this, and who hears of that finds the writes here.
        """
        self.put_writes(config, writes, task_id, task_path)
        return _done()

    def _keep(self, stored: _Stored) -> None:
        self._stored[""] = {stored.checkpoint["id"]: stored}

    def _forget(self, namespace: str, checkpoint_id: str) -> None:
        """What is older than the checkpoint and not needed with it, of its graph and of those that its tasks ran."""
        needed = self._needed(namespace, checkpoint_id)

        def is_needed(place: _Place) -> bool:
            name, stored_id = place
            if stored_id >= checkpoint_id:
                return True
            return stored_id in needed if name == namespace else not _ran_in_a_task_of(name, namespace)

        for name, by_id in list(self._stored.items()):
            for stored_id in list(by_id):
                if not is_needed((name, stored_id)):
                    del by_id[stored_id]
            if not by_id:
                del self._stored[name]
        for place in list(self._writes):
            if not is_needed(place):
                self._writes.pop(place, None)

    def _needed(self, namespace: str, checkpoint_id: str) -> Collection[str]:
        """The ids of the checkpoints that the values of this one's DeltaChannels are made of."""
        by_id = self._stored[namespace]
        stored = by_id[checkpoint_id]
        since: Mapping[str, Any] | None = stored.metadata.get("counters_since_delta_snapshot")
        if not since:
            return ()
        missing = {
            name
            for name in since
            if name in stored.checkpoint["channel_versions"] and name not in stored.checkpoint["channel_values"]
        }
        needed: set[str] = set()
        while missing and stored.parent_id in by_id:
            needed.add(stored.parent_id)
            stored = by_id[stored.parent_id]
            missing -= stored.checkpoint["channel_values"].keys()
        return needed

    def _ordered_writes(self, place: _Place) -> list[_Write]:
        writes = self._writes.get(place, {})
        return [writes[key] for key in sorted(writes, key=lambda key: writes_sort_key(writes[key].task_path, *key))]

    def _loaded(self, value: Any) -> Any:
        return self.serde.loads_typed((value.form, value.data)) if isinstance(value, _Serialized) else value

    def _place(self, namespace: str, checkpoint_id: str) -> RunnableConfig:
        place = {"thread_id": self.thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        return {"configurable": place}


async def _done() -> None:
    pass


def _dumped(value: Any) -> tuple[str, bytes]:
    return (value.form, value.data) if isinstance(value, _Serialized) else serializer.dumps_typed(value)


def _first(kept: Mapping[str, tuple[str, bytes]]) -> _Stored:
    """The checkpoint that a run would start from, had the exchange before been run in its thread."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {name: _Serialized(*typed) for name, typed in kept.items()}
    checkpoint["channel_versions"] = dict(zip(kept, itertools.repeat(1)))
    return _Stored(checkpoint, CheckpointMetadata(source="update", step=-2, parents={}), None)


def _ran_in_a_task_of(namespace: str, outer: str) -> bool:
    """Whether the graph at `namespace` was run by a task of the one at `outer`, and ends with it.

    The task's id is in its name; a graph that lives longer than the task has none.
    """
    if namespace == outer or not namespace.startswith(f"{outer}|" if outer else ""):
        return False
    return ":" in namespace.removeprefix(outer)
