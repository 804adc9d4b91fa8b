"""Recall: what a session's agent starts an exchange from, and what it leaves behind for the next.

The store is the truth. What is kept beside a warm agent is used only while the session's rank says that nothing has
been added since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.agents.kept_state import pack, unpack
from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.sessions.history import HISTORY_BYTES, History
from agentic_backend.stores.base import Store


@dataclass(slots=True)
class Memory:
    """`states` are the packed channels of the session's graphs, by agent: several may take turns in one session."""

    history: History
    states: Mapping[str, bytes]


class Recall:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def restore(self, warm: WarmAgent, session: Session | None, before_rank: int, window: int) -> Memory:
        """The memory of `session` up to `before_rank`, its last `window` exchanges; empty where there is none."""
        if session is None or before_rank == 0:
            return Memory(History(window, before_rank), {})
        memory = warm.memory
        if isinstance(memory, Memory) and memory.history.next_rank == before_rank:
            return memory
        rows = await self._store.last_exchanges(session.id, window, HISTORY_BYTES) if window else []
        stored = await self._store.session_state(session.id) if warm.flow.kept_channels else None
        return Memory(History(window, before_rank, rows), unpack(stored) if stored is not None else {})

    def session_state(self, warm: WarmAgent, memory: Memory, values: Mapping[str, Any] | None) -> bytes | None:
        """What is stored of a session's graphs once one of them has ended with `values`; None leaves it as it is."""
        if values is None:
            return None
        kept = {name: values[name] for name in warm.flow.kept_channels if name in values}
        return pack({**memory.states, warm.key[1]: pack(kept)})

    def remember(
        self, warm: WarmAgent, memory: Memory, exchange: Sequence[ChatMessage], next_rank: int, state: bytes | None
    ) -> None:
        """Keep beside the agent what the exchange has added to `memory`; `state` is what `session_state` gave."""
        memory.history.extend(exchange, next_rank)
        warm.memory = Memory(memory.history, memory.states if state is None else unpack(state))
