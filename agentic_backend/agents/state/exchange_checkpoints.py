"""The LangGraph checkpoints of one run: the state of its graphs, from which the run can continue at any moment.

A run starts from the state that the graph kept after the previous exchange (see kept_state). It adds checkpoints here
by reference, at almost no cost; `pack` turns them into bytes for any store. Another process that unpacks them
continues the same run: graph tasks that have ended do not run again.

For each graph, only the last checkpoint and the later writes of its tasks are kept. A DeltaChannel is stored as
changes; it also keeps the earlier checkpoints back to its last whole value.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    copy_checkpoint,
    get_checkpoint_id,
    writes_sort_key,
)
from langgraph.pregel._checkpoint import channels_from_checkpoint, empty_checkpoint
from langgraph.types import Interrupt

from agentic_backend.agents.state.kept_state import Packed, plain
from agentic_backend.agents.state.snapshot import INTERRUPT, Place, Snapshot, Stored, Write, Writes
from agentic_backend.agents.state.state_serializer import StateSerializer, serializer
from agentic_backend.errors import CheckpointMissing, StateRefused

_ROOT = RunnableConfig(configurable={"thread_id": "", "checkpoint_ns": ""})


class ExchangeCheckpoints(BaseCheckpointSaver[int]):
    """The checkpointer of one run, owned by that run. `kept` are the channels that the run starts from.

    `serde` is the serializer of the run's agents. What it refuses is raised as StateRefused when it is read,
    what is no value at all as CheckpointMissing.
    """

    serde: StateSerializer

    def __init__(
        self, kept: Mapping[str, Any] | None = None, *, run_id: str = "", serde: StateSerializer = serializer
    ) -> None:
        super().__init__(serde=serde)
        self.run_id = run_id
        """The id of the exchange in which the run began. LangGraph's thread is the whole session, which has one
        checkpointer for each run.
        """
        self._stored: dict[str, dict[str, Stored]] = {}
        """Both dicts are filled in place: LangGraph runs a graph with a shallow copy of its checkpointer. The
        checkpoints, by the graph's namespace and by their ids, which increase.
        """
        self._writes: dict[Place, Writes] = {}
        """The writes of the tasks that follow each checkpoint."""
        self.spent: Sequence[Any] = ()
        """What the run has spent when its checkpoint was taken (see CallLimits)."""
        self.meant: Mapping[str, Sequence[Any]] = {}
        """Which tools the run's open calls meant then (see `tools_meant`)."""
        self.on_step: Callable[[int, Snapshot], None] | None = None
        """Called with the number of a step of the root graph, and the state before it: in a thread, unless that state
        is packed sooner than a thread begins. None: nobody asks.
        """
        self.first_step = 0
        """The first step in which a node of an author's can run."""
        if kept:
            first = _first(kept)
            self._stored[""] = {first.checkpoint["id"]: first}

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The checkpoints in `packed`. Raises CheckpointMissing if the bytes are not of this version, and StateRefused.

        Its values are read later, with the agents' `serde`.
        """
        snapshot = Snapshot.unpack(packed)
        checkpoints = cls(run_id=snapshot.run_id)
        checkpoints.add(snapshot)
        checkpoints.spent, checkpoints.meant = snapshot.spent, snapshot.meant
        return checkpoints

    def add(self, snapshot: Snapshot) -> None:
        """Begin with the checkpoints of an earlier run."""
        for (namespace, checkpoint_id), stored in snapshot.checkpoints.items():
            self._stored.setdefault(namespace, {})[checkpoint_id] = stored
        self._writes.update(snapshot.writes)

    def snapshot(self) -> Snapshot:
        """The current state of the graphs."""
        # Copies, because a thread packs them while the run continues.
        stored = {(name, one): kept for name, by_id in list(self._stored.items()) for one, kept in list(by_id.items())}
        writes = {place: dict(one) for place, one in list(self._writes.items())}
        return Snapshot(self.run_id, stored, writes, self.spent, self.meant, self.serde)

    def pack(self) -> bytes:
        return self.snapshot().pack()

    def _before_step(self, checkpoint_id: str) -> Snapshot:
        """The state at a checkpoint of the root graph, without what its tasks have written since."""
        now = self.snapshot()
        stored = {place: one for place, one in now.checkpoints.items() if place[0] or place[1] <= checkpoint_id}
        writes = {place: one for place, one in now.writes.items() if place in stored and place != ("", checkpoint_id)}
        return now._replace(checkpoints=stored, writes=writes, meant={})

    @property
    def interrupts(self) -> list[Interrupt]:
        """The interrupts that the run waits for: those of unfinished tasks of its root graph."""
        latest = max(self._stored.get("", {}), default="")
        by_task: dict[str, list[Write]] = {}
        for write in self._ordered_writes(("", latest)):
            by_task.setdefault(write.task_id, []).append(write)
        # A task that has ended has written to a channel of its graph; other writes use LangGraph's reserved names.
        asked = [
            self._loaded(write.value)
            for writes in by_task.values()
            if all(write.channel in WRITES_IDX_MAP for write in writes)
            for write in writes
            if write.channel == INTERRUPT
        ]
        found = [one for value in asked for one in (value if isinstance(value, list | tuple) else [value])]
        # What a task asks is asked by the task that awaits it, too.
        if not all(isinstance(one, Interrupt) for one in found):
            raise CheckpointMissing
        return list({one.id: one for one in found}.values())

    @property
    def latest(self) -> list[Place]:
        """The place of the last checkpoint of each graph, outer graphs first."""
        return sorted((namespace, max(by_id)) for namespace, by_id in self._stored.items())

    def stored(self, place: Place) -> Stored:
        namespace, checkpoint_id = place
        return self._stored[namespace][checkpoint_id]

    def value(self, place: Place, channel: str) -> Any:
        """The value of `channel` at a checkpoint; None if it has none."""
        return self._loaded(self.stored(place).checkpoint["channel_values"].get(channel))

    def last_values(self, channels: Mapping[str, Any]) -> dict[str, Any]:
        """The values of these channels of the root graph after its last complete step; a value may be Packed still."""
        by_id = self._stored.get("", {})
        latest = max(by_id, default=None)
        if latest is None:
            return {}
        checkpoint = by_id[latest].checkpoint
        stored, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        found = {name: plain(stored[name]) for name in channels if name in stored}
        deltas = {
            name: channel
            for name, channel in channels.items()
            if isinstance(channel, DeltaChannel) and name in versions and name not in found
        }
        if deltas and (last := self.get_tuple(_ROOT)) is not None:
            restored, _ = channels_from_checkpoint(deltas, last.checkpoint, saver=self, config=last.config)
            found |= {name: channel.get() for name, channel in restored.items() if channel.is_available()}
        return found

    def values_of(self, channel: str) -> Iterator[tuple[str, Any]]:
        """All values and writes of `channel` as (namespace, value), outer graphs first, then oldest first."""
        for namespace, by_id in sorted(self._stored.items()):
            for checkpoint_id, stored in sorted(by_id.items()):
                if channel in stored.checkpoint["channel_values"]:
                    value = self._loaded(stored.checkpoint["channel_values"][channel])
                    yield namespace, plain(value)
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
            _place(config, namespace, checkpoint["id"]),
            checkpoint,
            stored.metadata.copy(),
            _place(config, namespace, stored.parent_id) if stored.parent_id else None,
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
        self._stored.setdefault(namespace, {})[checkpoint["id"]] = Stored(checkpoint, metadata, parent_id)
        self._forget(namespace, checkpoint["id"])
        return _place(config, namespace, checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = self.put(config, checkpoint, metadata, new_versions)
        step = metadata["step"] + 1
        if self.on_step is not None and step >= self.first_step and not config["configurable"].get("checkpoint_ns"):
            before = self._before_step(checkpoint["id"])
            if before.is_small:
                self.on_step(step, before)
            else:
                await asyncio.to_thread(self.on_step, step, before)
        return put

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        configurable = config["configurable"]
        place = (configurable.get("checkpoint_ns", ""), configurable["checkpoint_id"])
        kept = self._writes.setdefault(place, {})
        before = set(kept)
        for index, (channel, value) in enumerate(writes):
            key = (task_id, WRITES_IDX_MAP.get(channel, index))
            # A task's earlier writes stay; a write with a reserved index, such as an interrupt, is replaced.
            if key[1] < 0 or key not in before:
                kept[key] = Write(task_id, channel, value, task_path)

    def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> Coroutine[Any, Any, None]:
        """Store the writes at the call, not at the await: LangGraph reports a task's end right after the call, and
        the receiver of that report must find the writes here.
        """
        self.put_writes(config, writes, task_id, task_path)
        return _done()

    def _forget(self, namespace: str, checkpoint_id: str) -> None:
        """Drop older checkpoints of the graph, and of the graphs that its tasks ran, unless this one needs them."""
        needed = self._needed(namespace, checkpoint_id)

        def is_needed(place: Place) -> bool:
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
        """The ids of the earlier checkpoints that this one's DeltaChannels build on."""
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

    def _ordered_writes(self, place: Place) -> list[Write]:
        writes = self._writes.get(place, {})
        return [writes[key] for key in sorted(writes, key=lambda key: writes_sort_key(writes[key].task_path, *key))]

    def _loaded(self, value: Any) -> Any:
        if not isinstance(value, Packed):
            return value
        try:
            return self.serde.loads_typed((value.form, value.data))
        except StateRefused:
            raise
        except Exception as error:
            # Foreign bytes can raise almost anything in the serializer.
            raise CheckpointMissing from error


async def _done() -> None:
    pass


def _place(config: RunnableConfig, namespace: str, checkpoint_id: str) -> RunnableConfig:
    thread_id = config["configurable"]["thread_id"]
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def _first(kept: Mapping[str, Any]) -> Stored:
    """The first checkpoint of a run: the one that it would find if the previous exchange had used the same thread."""
    # The one of langgraph.pregel is of LangGraph's current version; it would convert one of an earlier version, in
    # which a channel with a node's name is a trigger.
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = dict(kept)
    checkpoint["channel_versions"] = dict(zip(kept, itertools.repeat(1)))
    return Stored(checkpoint, CheckpointMetadata(source="update", step=-2, parents={}), None)


def _ran_in_a_task_of(namespace: str, outer: str) -> bool:
    """Whether a task of the graph at `outer` ran the graph at `namespace`, which then ends with the task.

    Its namespace contains the task's id; that of a graph that outlives the task does not.
    """
    if namespace == outer or not namespace.startswith(f"{outer}|" if outer else ""):
        return False
    return ":" in namespace.removeprefix(outer)
