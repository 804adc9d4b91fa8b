"""Snapshot: the checkpoints of a run at one moment, and their packed form in the store.

A snapshot is taken at once, by reference, and packed later, in a thread. Unpacked values stay serialized until a graph
reads them, because only then does `serde` know the types of its state.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from langgraph.types import Interrupt

from agentic_backend.agents.state.kept_state import Packed
from agentic_backend.agents.state.state_serializer import StateSerializer, Unstorable, as_plain, serializer
from agentic_backend.errors import CheckpointMissing, StateRefused

INTERRUPT = "__interrupt__"
"""LangGraph's channel of what a task asks a person."""
_VERSION = 2
# So few messages, of so many characters, are packed in a fraction of a millisecond, which is less than a thread costs.
_FEW, _SHORT = 32, 64 * 1024


class Write(NamedTuple):
    """A task's write to a channel."""

    task_id: str
    channel: str
    value: Any
    task_path: str


class Stored(NamedTuple):
    """A checkpoint of a graph. Its channel values may be Packed."""

    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    # The id of the previous checkpoint.
    parent_id: str | None


Place = tuple[str, str]
"""A graph's namespace and a checkpoint's id."""
Writes = dict[tuple[str, int], Write]
"""The writes of the tasks that follow a checkpoint, by the task's id and the write's number."""


class Snapshot(NamedTuple):
    # The id of the exchange in which the run began.
    run_id: str
    checkpoints: Mapping[Place, Stored]
    # The writes after each checkpoint.
    writes: Mapping[Place, Writes]
    # What the run has spent (see CallLimits).
    spent: Sequence[Any]
    # Which tools its open calls mean (see `tools_meant`).
    meant: Mapping[str, Sequence[Any]] = {}
    # Packs the values of channels and writes.
    serde: StateSerializer = serializer

    def pack(self) -> bytes:
        """The snapshot as bytes. Raises TypeError or ValueError if a graph holds a value that can't be serialized."""
        checkpoints = [
            (
                namespace,
                serializer.dumps_typed({**checkpoint, "channel_values": {}}),
                {name: self._dumped(value) for name, value in checkpoint["channel_values"].items()},
                serializer.dumps_typed(metadata),
                parent_id,
            )
            for (namespace, _), (checkpoint, metadata, parent_id) in self.checkpoints.items()
        ]
        writes = [
            (
                place,
                [
                    (
                        key,
                        (task_id, channel, self._asked(value) if channel == INTERRUPT else self._dumped(value), path),
                    )
                    for key, (task_id, channel, value, path) in items
                ],
            )
            for place, items in ((place, written.items()) for place, written in self.writes.items())
        ]
        values = {
            "version": _VERSION,
            "thread_id": self.run_id,
            "checkpoints": checkpoints,
            "writes": writes,
            "spent": self.spent,
            "meant": self.meant,
        }
        return serializer.dumps_typed(values)[1]

    @property
    def is_small(self) -> bool:
        """Whether it holds a few short texts alone, so that `pack` takes less time than a thread costs."""
        if self.writes or len(self.checkpoints) != 1:
            return False
        [(checkpoint, _, _)] = self.checkpoints.values()
        return all(map(_is_small_value, checkpoint["channel_values"].values()))

    def _dumped(self, value: Any) -> tuple[str, bytes]:
        return (value.form, value.data) if isinstance(value, Packed) else self.serde.dumps_typed(value)

    def _asked(self, asked: Any) -> tuple[str, bytes]:
        """What the graph asks a person. It reads the answers alone, so other types than may be stored become plain."""
        try:
            return self._dumped(asked)
        except Unstorable:
            every = asked if isinstance(asked, list | tuple) else [asked]
            return self._dumped([Interrupt(value=as_plain(one.value), id=one.id) for one in every])

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The snapshot in `packed`. Raises CheckpointMissing if the bytes are not of this version, and StateRefused."""
        try:
            values = serializer.loads_typed(("msgpack", packed))
            if not isinstance(values, dict) or values.get("version") != _VERSION:
                raise CheckpointMissing
            checkpoints = {}
            for namespace, bare, channels, metadata, parent_id in values["checkpoints"]:
                checkpoint: Checkpoint = serializer.loads_typed(tuple(bare))
                checkpoint["channel_values"] = {name: Packed(*typed) for name, typed in channels.items()}
                about = serializer.loads_typed(tuple(metadata))
                if not isinstance(about, dict):
                    raise CheckpointMissing
                stored = Stored(checkpoint, cast(CheckpointMetadata, about), parent_id)
                checkpoints[namespace, checkpoint["id"]] = stored
            writes = {
                (namespace, checkpoint_id): {
                    tuple(key): Write(task_id, channel, Packed(*typed), path)
                    for key, (task_id, channel, typed, path) in written
                }
                for (namespace, checkpoint_id), written in values["writes"]
            }
            return cls(values["thread_id"], checkpoints, writes, values.get("spent", ()), values.get("meant", {}))
        except (CheckpointMissing, StateRefused):
            raise
        except Exception as error:
            # Foreign bytes can raise almost anything in the serializer.
            raise CheckpointMissing from error


def are_short_texts(messages: Sequence[Any]) -> bool:
    """Whether these are a few messages of short texts alone, which are packed in less time than a thread costs."""
    if len(messages) > _FEW or not all(isinstance(one, BaseMessage) and _is_text(one) for one in messages):
        return False
    return sum(len(one.content) for one in messages) <= _SHORT


def _is_text(message: BaseMessage) -> bool:
    """Whether a message is a text and no more: what else it holds may be large."""
    more = ("artifact", "tool_calls", "invalid_tool_calls", "additional_kwargs", "model_extra")
    return isinstance(message.content, str) and not any(getattr(message, name, None) for name in more)


def _is_small_value(value: Any) -> bool:
    """The same of a channel's value: None, such messages, or the input that has them."""
    if isinstance(value, dict):
        return value.keys() == {"messages"} and _is_small_value(value["messages"])
    return value is None or (isinstance(value, list) and are_short_texts(value))
