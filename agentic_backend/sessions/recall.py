"""Recall: what a session's agent starts an exchange from, and what it leaves behind for the next.

The store is the truth. What is kept beside a warm agent is used only while the session's rank says that nothing has
been added since.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.sessions.history import History
from agentic_backend.stores.base import Store

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Memory:
    """`channels` are the graph's own, beside `messages`; a swarm's active agent, a deep agent's files."""

    history: History
    channels: Mapping[str, Any]


class Recall:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._serializer = JsonPlusSerializer()

    async def restore(self, warm: WarmAgent, session: Session | None, before_rank: int, window: int) -> Memory:
        """The memory of `session` up to `before_rank`, its last `window` exchanges; empty where there is none."""
        if session is None or before_rank == 0:
            return Memory(History(window, before_rank), {})
        memory = warm.memory
        if isinstance(memory, Memory) and memory.history.next_rank == before_rank:
            return memory
        rows = await self._store.last_exchanges(session.id, window) if window else []
        channels = await self._channels(session.id) if warm.flow.kept_channels else {}
        return Memory(History(window, before_rank, rows), channels)

    def remember(
        self,
        warm: WarmAgent,
        memory: Memory,
        exchange: Sequence[ChatMessage],
        next_rank: int,
        state: Mapping[str, Any] | None,
    ) -> None:
        """Keep beside the agent what the exchange has added to `memory`."""
        memory.history.extend(exchange, next_rank)
        channels = self._kept(warm, state) if state is not None else memory.channels
        warm.memory = Memory(memory.history, channels)

    def session_state(self, warm: WarmAgent, state: Mapping[str, Any] | None) -> bytes | None:
        """The kept channels of a graph's last `state` as they are stored; None where there is nothing to store."""
        if state is None or not (kept := self._kept(warm, state)):
            return None
        try:
            kind, data = self._serializer.dumps_typed(kept)
        except (TypeError, ValueError):
            log.warning("a graph's state can't be kept", extra={"agent_id": warm.key[1], "channels": sorted(kept)})
            return None
        return kind.encode() + b"\0" + data

    def _kept(self, warm: WarmAgent, state: Mapping[str, Any]) -> dict[str, Any]:
        return {name: state[name] for name in warm.flow.kept_channels if state.get(name) is not None}

    async def _channels(self, session_id: str) -> Mapping[str, Any]:
        stored = await self._store.session_state(session_id)
        if stored is None:
            return {}
        kind, _, data = stored.partition(b"\0")
        channels: Mapping[str, Any] = self._serializer.loads_typed((kind.decode(), data))
        return channels
