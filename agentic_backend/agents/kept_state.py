"""What a graph keeps between two exchanges beside its messages: packed at the end of one, given to the next.

It is given as the checkpoint that a run starts from (see exchange_checkpoints), as LangGraph itself would continue a
thread. Input could not carry it: a graph takes in only the channels of its input schema, and sends through its reducers
what it takes in.
"""

import logging
from collections.abc import Mapping
from typing import Any

from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.pregel import Pregel

log = logging.getLogger(__name__)

serializer = JsonPlusSerializer()


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
            packed[name] = serializer.dumps_typed(value)
        except (TypeError, ValueError):
            log.warning("a channel of a graph can't be kept", extra={"channel": name, "form": type(value).__name__})
    return serializer.dumps_typed(packed)[1]


def unpack(packed: bytes) -> dict[str, Any]:
    """The values that `pack` was given."""
    return {name: serializer.loads_typed(typed) for name, typed in serialized(packed).items()}


def serialized(packed: bytes) -> Mapping[str, tuple[str, bytes]]:
    """The values that `pack` was given, each as the serializer made it."""
    typed: Mapping[str, tuple[str, bytes]] = serializer.loads_typed(("msgpack", packed))
    return typed
