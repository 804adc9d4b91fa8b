"""The state that a graph keeps between exchanges, except its messages: packed at the end of one, restored for the next.

A run starts from it as a checkpoint (see exchange_checkpoints), as LangGraph itself continues a thread. It can't be
passed as input: a graph accepts only the channels of its input schema, and applies its reducers to them.
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
    """The output channels except `messages`, such as a swarm's active agent or a deep agent's files.

    Other channels are private to the graph and may refer to the messages of one run.
    """
    output = [graph.output_channels] if isinstance(graph.output_channels, str) else graph.output_channels
    passing = (EphemeralValue, UntrackedValue)
    return frozenset(name for name in output if name != "messages" and not isinstance(graph.channels[name], passing))


def pack(channels: Mapping[str, Any]) -> bytes:
    """The values of `channels` as bytes, without those that can't be serialized."""
    packed = {}
    for name, value in channels.items():
        try:
            packed[name] = serializer.dumps_typed(value)
        except (TypeError, ValueError):
            log.warning("graph channel can't be serialized", extra={"channel": name, "form": type(value).__name__})
    return serializer.dumps_typed(packed)[1]


def unpack(packed: bytes) -> dict[str, Any]:
    """The channels in the result of `pack`."""
    return {name: serializer.loads_typed(typed) for name, typed in serialized(packed).items()}


def serialized(packed: bytes) -> Mapping[str, tuple[str, bytes]]:
    """The channels in the result of `pack`, each value still serialized: (type, bytes)."""
    typed: Mapping[str, tuple[str, bytes]] = serializer.loads_typed(("msgpack", packed))
    return typed
