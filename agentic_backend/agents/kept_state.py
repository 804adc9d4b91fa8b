"""The state that a session keeps of an agent's graph: packed at the end of an exchange, restored for the next.

A run starts from it as a checkpoint (see exchange_checkpoints), as LangGraph itself continues a thread. It can't be
passed as input: a graph accepts only the channels of its input schema, and applies its reducers to them.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from agentic_backend.agents.channel_forms import Graph, fits

log = logging.getLogger(__name__)

serializer = JsonPlusSerializer()

MESSAGES_BYTES = 2 * 1024 * 1024
"""The maximum packed size of the messages that are kept of one agent."""
STATE_BYTES = 8 * 1024 * 1024
"""The packed size of a session's states above which the messages of agents that answered earlier are not kept."""

# Not a channel: the name under which the packed state holds what is not one. An older server ignores it.
_BESIDE = "__kept__"
# What holds what most often can't be serialized.
_LOOSE = ("artifact", "additional_kwargs", "response_metadata")


class Packed(NamedTuple):
    """A value that is still serialized."""

    form: str
    data: bytes


class Kept(NamedTuple):
    """What a session keeps of an agent's graph."""

    channels: Mapping[str, Packed] = {}
    # The form of the type of each channel, and of `messages`, when it was kept (see channel_forms).
    forms: Mapping[str, str] = {}
    # The root graph's `messages`; None if they are not kept: then the stored messages serve.
    messages: Packed | None = None
    # The messages stand for the session's stored ones below this rank.
    rank: int = 0
    # The memory of the subgraphs that have one (see lasting_graphs); b"" if there is none.
    graphs: bytes = b""

    def pack(self) -> bytes:
        messages = None if self.messages is None else tuple(self.messages)
        values = {"forms": dict(self.forms), "messages": messages, "rank": self.rank, "graphs": self.graphs}
        beside = serializer.dumps_typed(values)
        channels = {name: tuple(packed) for name, packed in self.channels.items()}
        return serializer.dumps_typed({**channels, _BESIDE: beside})[1]

    @classmethod
    def unpack(cls, packed: bytes) -> "Kept":
        """The result of `pack`, also of an older server's, which kept channels only."""
        values = {name: Packed(*typed) for name, typed in serializer.loads_typed(("msgpack", packed)).items()}
        beside = serializer.loads_typed(values.pop(_BESIDE)) if _BESIDE in values else {}
        messages = beside.get("messages")
        return cls(
            channels=values,
            forms=beside.get("forms", {}),
            messages=Packed(*messages) if messages else None,
            rank=beside.get("rank", 0),
            graphs=beside.get("graphs", b""),
        )

    def without_messages(self) -> "Kept":
        return self._replace(messages=None, rank=0)


NOTHING = Kept()


def pack_states(states: Mapping[str, bytes]) -> bytes:
    """The packed states of a session's agents, by agent id, as the store keeps them."""
    return serializer.dumps_typed({agent_id: serializer.dumps_typed(state) for agent_id, state in states.items()})[1]


def unpack_states(packed: bytes) -> dict[str, bytes]:
    typed = serializer.loads_typed(("msgpack", packed))
    return {agent_id: serializer.loads_typed(tuple(state)) for agent_id, state in typed.items()}


def kept_channels(graph: Graph) -> frozenset[str]:
    """The output channels except `messages`, such as a swarm's active agent or a deep agent's files.

    Other channels are private to the graph and may refer to the messages of one run.
    """
    output = [graph.output_channels] if isinstance(graph.output_channels, str) else graph.output_channels
    passing = (EphemeralValue, UntrackedValue)
    return frozenset(name for name in output if name != "messages" and not isinstance(graph.channels[name], passing))


def adds_messages(graph: Graph) -> bool:
    """Whether the graph's `messages` adds a run's input to what it has, as `add_messages` does.

    If not, a run has to be given all messages as its input.
    """
    before, after = HumanMessage("before", id="before"), HumanMessage("after", id="after")
    try:
        messages: Any = graph.channels["messages"]
        channel = messages.from_checkpoint([before])
        channel.update([[after]])
        return [message.id for message in channel.get()] == [before.id, after.id]
    except Exception:
        # The author's reducer wants something else.
        return False


def pack_channels(values: Mapping[str, Any]) -> dict[str, Packed]:
    """The channels, without those that can't be serialized. Values that are Packed already stay as they are."""
    packed = {}
    for name, value in sorted(values.items()):
        try:
            packed[name] = value if isinstance(value, Packed) else Packed(*serializer.dumps_typed(value))
        except (TypeError, ValueError):
            log.warning("graph channel can't be serialized", extra={"channel": name, "form": type(value).__name__})
    return packed


def pack_messages(messages: Sequence[Any], agent_id: str) -> tuple[list[Any], Packed | None]:
    """The messages as they can be kept, and packed; None, and a warning, if they are too large or can't be."""
    try:
        kept, packed = list(messages), Packed(*serializer.dumps_typed(list(messages)))
    except (TypeError, ValueError):
        kept = [_serializable(message) for message in messages]
        try:
            packed = Packed(*serializer.dumps_typed(kept))
        except (TypeError, ValueError):
            log.warning("a graph's messages can't be serialized", extra={"agent_id": agent_id})
            return kept, None
    if len(packed.data) > MESSAGES_BYTES:
        log.warning("a graph's messages are too large", extra={"agent_id": agent_id, "bytes": len(packed.data)})
        return kept, None
    return kept, packed


def _serializable(message: Any) -> Any:
    """The message without the fields that can't be serialized, such as a tool's artifact."""
    if not isinstance(message, BaseMessage):
        return message
    for name in _LOOSE:
        try:
            serializer.dumps_typed(getattr(message, name, None))
        except (TypeError, ValueError):
            log.warning("a message's field can't be serialized", extra={"field": name})
            message = message.model_copy(update={name: None if name == "artifact" else {}})
    return message


def restore(kept: Kept, graph: Graph, agent_id: str) -> tuple[Kept, list[Any]]:
    """What the graph can start from of `kept`, and its messages.

    A channel whose value no longer fits its type is left out, with a warning: it begins anew.
    """
    # With the types that the graph's state names, if the environment restricts what is built again.
    saver = graph._apply_checkpointer_allowlist(BaseCheckpointSaver(serde=serializer))
    serde = serializer if saver is None else saver.serde
    channels: dict[str, Packed] = {}
    for name in kept_channels(graph) & kept.channels.keys():
        value = serde.loads_typed(kept.channels[name])
        if isinstance(value, _DeltaSnapshot):
            value = value.value
            channels[name] = Packed(*serializer.dumps_typed(value))
        else:
            channels[name] = kept.channels[name]
        if not fits(graph, name, value, kept.forms.get(name)):
            del channels[name]
            _warn_of_misfit(agent_id, name)
    messages = [] if kept.messages is None else serde.loads_typed(kept.messages)
    if kept.messages is not None and not (
        isinstance(messages, list) and fits(graph, "messages", messages, kept.forms.get("messages"))
    ):
        _warn_of_misfit(agent_id, "messages")
        return kept.without_messages()._replace(channels=channels), []
    return kept._replace(channels=channels), messages


def _warn_of_misfit(agent_id: str, channel: str) -> None:
    text = "a channel's kept value does not fit the type that its graph declares, so the channel begins anew"
    log.warning(text, extra={"agent_id": agent_id, "channel": channel})
