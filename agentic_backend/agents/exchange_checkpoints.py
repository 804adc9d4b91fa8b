"""The LangGraph checkpoints of one exchange: where its graphs stopped, so that a paused one can go on.

A run starts from what the graph kept of the exchange before (see kept_state), and puts its checkpoints here, where they
cost nothing until they are packed. Packed, they are bytes that the store keeps while a person is waited for, whichever
store it is; unpacked in another process, they continue the same run.
"""

from collections.abc import Mapping
from typing import Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)
from langgraph.checkpoint.memory import InMemorySaver

from agentic_backend.agents.kept_state import serialized, serializer

_VERSION = 1
_Put = tuple[RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions]


class ExchangeCheckpoints(InMemorySaver):
    """Serves one thread, whose id is the exchange's. `kept` are the packed channels that its first run starts from."""

    def __init__(self, kept: bytes | None = None) -> None:
        super().__init__(serde=serializer)
        self._kept = serialized(kept) if kept is not None else None
        self._unserialized: list[_Put] = []

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The checkpoints that `pack` was called on. Raises ValueError where they are none of this version."""
        values = serializer.loads_typed(("msgpack", packed))
        if not isinstance(values, dict) or values.get("version") != _VERSION:
            raise ValueError("these are no checkpoints of this version")
        checkpoints = cls()
        for thread_id, namespace, checkpoint_id, *stored in values["checkpoints"]:
            checkpoints.storage[thread_id][namespace][checkpoint_id] = tuple(stored)
        for place, writes in values["writes"]:
            checkpoints.writes[tuple(place)] = {tuple(key): tuple(write) for key, write in writes}
        checkpoints.blobs.update({tuple(key): tuple(blob) for key, blob in values["blobs"]})
        return checkpoints

    def pack(self) -> bytes:
        """All that is needed to go on. Raises TypeError or ValueError where a graph holds what can't be serialized."""
        self._serialize()
        checkpoints = [
            (thread_id, namespace, checkpoint_id, *stored)
            for thread_id, namespaces in self.storage.items()
            for namespace, by_id in namespaces.items()
            for checkpoint_id, stored in by_id.items()
        ]
        writes = [(place, list(stored.items())) for place, stored in self.writes.items()]
        values = {
            "version": _VERSION,
            "checkpoints": checkpoints,
            "writes": writes,
            "blobs": list(self.blobs.items()),
        }
        return serializer.dumps_typed(values)[1]

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        self._serialize()
        found = super().get_tuple(config)
        if found is not None or self._kept is None or config["configurable"].get("checkpoint_ns"):
            return found
        return self._first(config, self._kept)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        # Most runs end without a pause, and nobody ever reads what they put at their end.
        self._unserialized.append((config, checkpoint, metadata, new_versions))
        return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}

    def _serialize(self) -> None:
        # In place: LangGraph runs a graph with a shallow copy of its checkpointer.
        while self._unserialized:
            super().put(*self._unserialized.pop(0))

    def _first(self, config: RunnableConfig, kept: Mapping[str, tuple[str, bytes]]) -> CheckpointTuple:
        """The checkpoint that a thread would have, had the exchange before been run in it."""
        # Unpacked here because LangGraph gives `serde` the types of the graph's state before it asks.
        values = {name: self.serde.loads_typed(typed) for name, typed in kept.items()}
        version = self.get_next_version(None, None)
        # A later checkpoint brings what has changed since this one; the rest is looked for here.
        self.blobs.update({(config["configurable"]["thread_id"], "", name, version): kept[name] for name in kept})
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = values
        checkpoint["channel_versions"] = dict.fromkeys(values, version)
        place = {**config["configurable"], "checkpoint_id": checkpoint["id"]}
        metadata = CheckpointMetadata(source="update", step=-2, parents={})
        return CheckpointTuple({"configurable": place}, checkpoint, metadata)
