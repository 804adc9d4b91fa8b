"""The state that a session keeps of an agent's graph: packed at the end of an exchange, restored for the next.

A run starts from it as a checkpoint (see exchange_checkpoints), as LangGraph itself continues a thread. It can't be
passed as input: a graph accepts only the channels of its input schema, and applies its reducers to them.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, Required, get_args, get_origin

from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph.state import CompiledStateGraph

from agentic_backend.agents.state.channel_forms import Graph, fits, forms_of
from agentic_backend.agents.state.state_serializer import StateSerializer, Unstorable, as_plain, serializer
from agentic_backend.errors import StateRefused

log = logging.getLogger(__name__)

MESSAGES_BYTES = 2 * 1024 * 1024
"""The maximum packed size of the messages that are kept of one agent."""
STATE_BYTES = 8 * 1024 * 1024
"""The packed size of a session's states above which the messages of agents that answered earlier are not kept."""

# Not a channel: the name under which the packed state holds what is not one. An older server ignores it.
_BESIDE = "__kept__"
# What holds what most often can't be serialized.
_LOOSE = ("artifact", "additional_kwargs", "response_metadata")

_PASSING = (EphemeralValue, UntrackedValue)


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
    # The private channels of middleware, which belong to exactly these messages: they may count them.
    private: Mapping[str, Packed] = {}
    # The messages stand for the session's stored ones below this rank.
    rank: int = 0
    # The memory of the subgraphs that have one (see lasting_graphs); b"" if there is none.
    graphs: bytes = b""

    def pack(self) -> bytes:
        beside = {
            "forms": dict(self.forms),
            "messages": None if self.messages is None else (self.messages.form, self.messages.data),
            "private": _as_tuples(self.private),
            "rank": self.rank,
            "graphs": self.graphs,
        }
        return serializer.dumps_typed({**_as_tuples(self.channels), _BESIDE: serializer.dumps_typed(beside)})[1]

    @classmethod
    def unpack(cls, packed: bytes) -> "Kept":
        """The result of `pack`, also of an older server's, which kept channels only."""
        channels = _as_packed(serializer.loads_typed(("msgpack", packed)))
        beside = serializer.loads_typed(channels.pop(_BESIDE)) if _BESIDE in channels else {}
        return cls(
            channels=channels,
            forms=beside.get("forms", {}),
            messages=Packed(*beside["messages"]) if beside.get("messages") else None,
            private=_as_packed(beside.get("private", {})),
            rank=beside.get("rank", 0),
            graphs=beside.get("graphs", b""),
        )

    def without_messages(self) -> "Kept":
        return self._replace(messages=None, private={}, rank=0)


def _as_tuples(packed: Mapping[str, Packed]) -> dict[str, tuple[str, bytes]]:
    """Plain tuples: the serializer would build a named tuple again by its class."""
    return {name: (one.form, one.data) for name, one in packed.items()}


def _as_packed(typed: Mapping[str, Sequence[Any]]) -> dict[str, Packed]:
    return {name: Packed(*one) for name, one in typed.items()}


NOTHING = Kept()


def pack_states(states: Mapping[str, bytes]) -> bytes:
    """The packed states of a session's agents, by agent id, as the store keeps them."""
    return serializer.dumps_typed({agent_id: serializer.dumps_typed(state) for agent_id, state in states.items()})[1]


def unpack_states(packed: bytes) -> dict[str, bytes]:
    typed = serializer.loads_typed(("msgpack", packed))
    return {agent_id: serializer.loads_typed(tuple(state)) for agent_id, state in typed.items()}


def kept_channels(graph: Graph) -> frozenset[str]:
    """The output channels except `messages`, such as a swarm's active agent or a deep agent's files."""
    output = [graph.output_channels] if isinstance(graph.output_channels, str) else graph.output_channels
    return frozenset(name for name in output if name != "messages" and not isinstance(graph.channels[name], _PASSING))


def private_channels(graph: Graph) -> frozenset[str]:
    """The private channels of LangChain's middleware, such as counters, or how much of the messages is summarized.

    What else a graph hides from its output belongs to one run.
    """
    if not isinstance(graph, CompiledStateGraph):
        return frozenset()
    # `create_agent` makes the schema, and no annotation of it is a text.
    annotations = getattr(graph.builder.state_schema, "__annotations__", {})
    private = {name for name, hint in annotations.items() if _is_private(hint)}
    return frozenset(name for name in private & graph.channels.keys() if not isinstance(graph.channels[name], _PASSING))


def _is_private(hint: Any) -> bool:
    """Whether `PrivateStateAttr` annotates the type, in any order with `NotRequired`."""
    if get_origin(hint) in (NotRequired, Required):
        return _is_private(get_args(hint)[0])
    return get_origin(hint) is Annotated and (PrivateStateAttr in hint.__metadata__ or _is_private(hint.__origin__))


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


def pack_channels(values: Mapping[str, Any], serde: StateSerializer = serializer) -> dict[str, Packed]:
    """The channels, without those that can't be serialized. Values that are Packed already stay as they are.

    `serde` is the one of the agent, here and below.
    """
    packed = {}
    for name, value in sorted(values.items()):
        try:
            packed[name] = value if isinstance(value, Packed) else Packed(*serde.dumps_typed(value))
        except (TypeError, ValueError) as error:
            form = str(error) if isinstance(error, Unstorable) else type(value).__name__
            log.warning("graph channel not serializable", extra={"channel": name, "form": form})
    return packed


def pack_messages(
    messages: Sequence[Any], agent_id: str, serde: StateSerializer = serializer
) -> tuple[list[Any], Packed | None]:
    """The messages as they can be kept, and packed; None, and a warning, if they are too large or can't be."""
    if (least := sum(map(_characters, messages))) > MESSAGES_BYTES:
        # Not even packed: that would take their size in memory again.
        _warn_of_size(agent_id, least)
        return list(messages), None
    try:
        kept, packed = list(messages), Packed(*serde.dumps_typed(list(messages)))
    except (TypeError, ValueError):
        kept = [_serializable(message, serde) for message in messages]
        try:
            packed = Packed(*serde.dumps_typed(kept))
        except (TypeError, ValueError) as error:
            log.warning("graph messages not serializable", extra={"agent_id": agent_id, **unstorable(error)})
            return kept, None
    if len(packed.data) > MESSAGES_BYTES:
        _warn_of_size(agent_id, len(packed.data))
        return kept, None
    return kept, packed


def _characters(message: Any) -> int:
    """How long a message's text is, if that is all its content."""
    content = message.content if isinstance(message, BaseMessage) else ""
    return len(content) if isinstance(content, str) else 0


def _warn_of_size(agent_id: str, size: int) -> None:
    log.warning("graph messages too large", extra={"agent_id": agent_id, "bytes": size})


def unstorable(error: Exception) -> Mapping[str, str]:
    """What the log tells of a type that may not be stored; nothing of other errors, whose texts may quote a value."""
    return {"reason": str(error)} if isinstance(error, Unstorable) else {}


def _serializable(message: Any, serde: StateSerializer) -> Any:
    """The message without the fields that can't be serialized, such as a tool's artifact."""
    if not isinstance(message, BaseMessage):
        return message
    for name in _LOOSE:
        value = getattr(message, name, None)
        try:
            serde.dumps_typed(value)
        except (TypeError, ValueError) as error:
            log.warning("message field not serializable", extra={"field": name, **unstorable(error)})
            without: Any = None if name == "artifact" else {}
            message = message.model_copy(update={name: as_plain(value) if isinstance(error, Unstorable) else without})
    return message


def restore(kept: Kept, graph: Graph, agent_id: str, serde: StateSerializer = serializer) -> tuple[Kept, list[Any]]:
    """What the graph can start from of `kept`, and its messages.

    A channel whose value no longer fits its type is left out, with a warning: it begins anew. Raises StateRefused if
    the graph declares the type as it did, and what is stored is of one that may not be built.
    """
    channels, private = (
        {
            name: packed
            for name in names & of.keys()
            if (packed := _fitting(graph, name, of[name], kept.forms.get(name), serde, agent_id)) is not None
        }
        for names, of in ((kept_channels(graph), kept.channels), (private_channels(graph), kept.private))
    )
    kept = kept._replace(channels=channels, private=private)
    if kept.messages is None:
        return kept, []
    is_fitting, messages = opened(graph, "messages", kept.messages, kept.forms.get("messages"), serde)
    if isinstance(messages, list) and is_fitting:
        return kept, messages
    warn_of_misfit(agent_id, "messages")
    return kept.without_messages(), []


def opened(
    graph: Graph, name: str, packed: Sequence[Any], form: str | None, serde: StateSerializer
) -> tuple[bool, Any]:
    """Whether the channel `name` can start from what was kept under `form` (None: not known), and the value.

    Raises StateRefused if its type may not be built, though the graph declares the type that it did.
    """
    kind, data = packed
    try:
        value = serde.loads_typed((kind, data))
    except StateRefused:
        if form is None or form == forms_of(graph, [name])[name]:
            raise
        return False, None
    return fits(graph, name, plain(value), form), value


def plain(value: Any) -> Any:
    """The value without what LangGraph wraps around the whole value of a DeltaChannel."""
    return value.value if isinstance(value, _DeltaSnapshot) else value


def _fitting(
    graph: Graph, name: str, packed: Packed, form: str | None, serde: StateSerializer, agent_id: str
) -> Packed | None:
    """The value as the channel can start from it; None, and a warning, if it does not fit."""
    is_fitting, value = opened(graph, name, packed, form, serde)
    if not is_fitting:
        warn_of_misfit(agent_id, name)
        return None
    # Plain, because the channel may be of another kind since.
    return packed if plain(value) is value else Packed(*serde.dumps_typed(plain(value)))


def warn_of_misfit(agent_id: str, channel: str) -> None:
    log.warning("graph channel begins anew", extra={"agent_id": agent_id, "channel": channel})
