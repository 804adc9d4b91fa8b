"""What a graph keeps between two exchanges beside its messages: packed at the end of one, given to the next.

It is given as the checkpoint that a run starts from, as LangGraph itself would continue a thread. Input could not carry
it: a graph takes in only the channels of its input schema, and sends through its reducers what it takes in.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.pregel import Pregel

log = logging.getLogger(__name__)

_serializer = JsonPlusSerializer()


def kept_channels(graph: Pregel[Any, Any, Any, Any]) -> frozenset[str]:
    """The channels that a graph gives back beside `messages`, such as a swarm's active agent or a deep agent's files.

    What it hides from its output is its own business and may point into the messages of one run.
    """
    output = [graph.output_channels] if isinstance(graph.output_channels, str) else graph.output_channels
    passing = (EphemeralValue, UntrackedValue)
    return frozenset(name for name in output if name != "messages" and not isinstance(graph.channels[name], passing))


def pack(channels: Mapping[str, Any]) -> bytes:
    """The values of channels as bytes; one that can't be serialized is left out."""
    packed = {}
    for name, value in channels.items():
        try:
            packed[name] = _serializer.dumps_typed(value)
        except (TypeError, ValueError):
            log.warning("a channel of a graph can't be kept", extra={"channel": name, "form": type(value).__name__})
    return _serializer.dumps_typed(packed)[1]


def unpack(packed: bytes) -> dict[str, Any]:
    """The values that `pack` was given."""
    return {name: _serializer.loads_typed(typed) for name, typed in _typed(packed).items()}


def _typed(packed: bytes) -> Mapping[str, tuple[str, bytes]]:
    typed: Mapping[str, tuple[str, bytes]] = _serializer.loads_typed(("msgpack", packed))
    return typed


class FirstCheckpoint(BaseCheckpointSaver[int]):
    """Starts the root graph of a run from `packed` channels, and keeps nothing of the run."""

    def __init__(self, packed: bytes) -> None:
        super().__init__(serde=_serializer)
        self._channels = _typed(packed)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if config["configurable"].get("checkpoint_ns"):
            return None
        # Unpacked here because LangGraph gives `serde` the types of the graph's state before it asks.
        values = {name: self.serde.loads_typed(typed) for name, typed in self._channels.items()}
        first = self.get_next_version(None, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = values
        checkpoint["channel_versions"] = dict.fromkeys(values, first)
        place = {**config["configurable"], "checkpoint_id": checkpoint["id"]}
        metadata = CheckpointMetadata(source="update", step=-2, parents={})
        return CheckpointTuple({"configurable": place}, checkpoint, metadata)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.get_tuple(config)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return config

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return config

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Nothing: a run that starts here can't be continued from the middle."""

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Nothing, as `put_writes`."""
