"""Recall: restores a session's history and graph states for an exchange, and remembers them after it.

The store is the source of truth. The memory of a warm agent is a cache: it is used only if the session's rank shows
that no message has been added since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.agents.kept_state import pack, unpack
from agentic_backend.exchange.history import HISTORY_BYTES, History
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import MessageRecord, SessionRecord


@dataclass(slots=True)
class Memory:
    """`states` are the packed channels of the session's graphs, by agent id: a session may use several agents."""

    history: History
    states: Mapping[str, bytes]


class Recall:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def restore(self, warm: WarmAgent, session: SessionRecord | None, before_rank: int, window: int) -> Memory:
        """The memory of the last `window` exchanges of `session` before `before_rank`; empty if it has none."""
        if session is None or before_rank == 0:
            return Memory(History(window, before_rank), {})
        memory = warm.memory
        if isinstance(memory, Memory) and memory.history.next_rank == before_rank:
            return memory
        rows = await self._store.last_exchanges(session.id, window, HISTORY_BYTES) if window else []
        stored = await self._store.session_state(session.id, before_rank) if warm.flow.kept_channels else None
        return Memory(History(window, before_rank, rows), unpack(stored) if stored is not None else {})

    def session_state(self, warm: WarmAgent, memory: Memory, values: Mapping[str, Any] | None) -> bytes | None:
        """The state to store after a graph of the session ends with `values`; None if it has not changed."""
        if values is None:
            return None
        agent_id = warm.key[1]
        packed = pack({name: values[name] for name in sorted(warm.flow.kept_channels) if name in values})
        return None if memory.states.get(agent_id) == packed else pack({**memory.states, agent_id: packed})

    def remember(
        self, warm: WarmAgent, memory: Memory, exchange: Sequence[MessageRecord], next_rank: int, state: bytes | None
    ) -> None:
        """Add the ended exchange to the memory of the warm agent; `state` is the result of `session_state`."""
        memory.history.extend(exchange, next_rank)
        warm.memory = Memory(memory.history, memory.states if state is None else unpack(state))
