"""Recall: restores what a graph starts from, and remembers what it left.

A graph starts from what it left itself at the end of its last exchange that ended well: its channels and its messages,
whatever it did to them. What the session has got since, from other agents or in exchanges that ended otherwise, is
restored from the stored messages. So is everything if nothing is kept: what the stored messages say as well is not kept
beside them.

The store is the source of truth. The memory of a warm agent is a cache: it is used only if the session's ranks show
that no message has been added since, and that nobody has reset the session's state.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import ne
from typing import Any

from langchain_core.messages import BaseMessage

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.agents.state.channel_forms import forms_of
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.state.kept_state import (
    NOTHING,
    STATE_BYTES,
    Kept,
    Packed,
    pack_channels,
    pack_messages,
    pack_states,
    restore,
    unpack_states,
)
from agentic_backend.agents.state.lasting_graphs import lasting, pack_lasting
from agentic_backend.agents.state.snapshot import Snapshot, are_short_texts
from agentic_backend.errors import StateRefused
from agentic_backend.exchange.past.history import (
    HISTORY_BYTES,
    LONGEST_STORED,
    StoredExchange,
    content_of,
    restore_exchange,
    restore_exchanges,
    stored_exchange,
    stored_exchanges,
)
from agentic_backend.exchange.past.left_messages import as_left, divided, last_exchanges
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import MessageRecord, Restore, SessionRecord

log = logging.getLogger(__name__)

# So many rows are made into messages in about 2 ms.
_FEW_ROWS = 200
# What is stored stands for a graph's messages up to so many of them.
_MOST_STORED = 512
# How many exchanges are read at first, and a number that no session has.
_FIRST_PAGE, _ALL = 32, 1_000_000_000

Needed = Callable[[Sequence[Sequence[BaseMessage]]], int]
"""How many of a session's last exchanges are needed, as far as the last of them tell. Called in a thread."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What one agent of a session starts from. `window` is the maximum number of its earlier exchanges."""

    window: int
    # The session's next rank, and the rank at which its state was reset last.
    next_rank: int
    reset_rank: int
    kept: Kept = NOTHING
    """The channels that the agent's graph left; its messages, unpacked; the exchanges that the graph has not seen."""
    left: Sequence[Any] = ()
    unseen: Sequence[Sequence[BaseMessage]] = ()
    states: Mapping[str, bytes] = field(default_factory=dict)
    """The packed states of all agents of the session, by agent id, the last one used at the end."""
    # The stored exchanges that say all of `left` and `unseen`; None if anything is kept beside them.
    stored: Sequence[StoredExchange] | None = None
    restore: Restore | None = None
    """Where this was found; None if the session has no past."""

    def channels(self, *, is_whole: bool) -> Mapping[str, Packed]:
        """The channels that the graph left.

        The private ones of middleware belong to all messages that it left, so they come only with these (`is_whole`).
        """
        return {**self.kept.channels, **(self.kept.private if is_whole else {})}


@dataclass(frozen=True, slots=True)
class Ended:
    """What the end of a run leaves: `state` for the store (None: unchanged), `memory` for the warm agent."""

    state: bytes | None = None
    memory: Memory | None = None


def given_memory(past: Sequence[MessageRecord], window: int) -> Memory:
    """The last `window` exchanges of what a query's client tells of its past."""
    unseen = restore_exchanges(past)[-window:] if window else []
    return Memory(window, 0, 0, unseen=unseen, stored=())


class Recall:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def restore(
        self,
        warm: WarmAgent,
        session: SessionRecord | None,
        before_rank: int,
        window: int,
        log_fields: Mapping[str, object] | None = None,
        needed: Needed = lambda exchanges: _ALL,
    ) -> Memory:
        """The memory of the last `window` exchanges of `session` before `before_rank`; empty if it has none.

        Of those that the graph has not seen, no more are read than are `needed`, the newest first.
        Logs with `log_fields` where a past was found: `warm`, in the agent, or `cold`, in the store, with the number of
        rows read. Raises StateRefused, as `kept_state.restore` does.
        """
        began = time.monotonic()
        reset_rank = session.reset_rank or 0 if session is not None else 0
        if session is None or before_rank == 0:
            return Memory(window, before_rank, reset_rank, stored=())
        memory = warm.memory
        if isinstance(memory, Memory) and (memory.next_rank, memory.reset_rank) == (before_rank, reset_rank):
            _log_restored("warm", window, 0, began, log_fields)
            return replace(memory, restore="warm")
        states = await self._states(session, before_rank)
        kept, left = await asyncio.to_thread(_restored, warm, states)
        unseen_from = max(kept.rank, reset_rank)
        unseen: list[list[BaseMessage]] = []
        stored: list[StoredExchange] | None = []
        read = 0
        if window and unseen_from < before_rank:
            # No more than the graph has not seen: an exchange has at least one message.
            count = min(window, before_rank - unseen_from)
            unseen, stored, read = await self._unseen(session, unseen_from, count, needed)
        _log_restored("cold", window, read, began, log_fields)
        all_stored = stored if warm.key[1] not in states else None
        return Memory(window, before_rank, reset_rank, kept, left if window else [], unseen, states, all_stored, "cold")

    async def _unseen(
        self, session: SessionRecord, since: int, count: int, needed: Needed
    ) -> tuple[list[list[BaseMessage]], list[StoredExchange] | None, int]:
        """The last `count` exchanges from rank `since` on, or as many as are needed; as they are stored, unless
        these are many; and the number of rows read.

        Reads a few at first, and these again with as many more as they show to be needed.
        """
        page = min(count, _FIRST_PAGE)
        while True:
            rows = await self._store.last_exchanges(session.id, page, HISTORY_BYTES)
            own = [row for row in rows if row.rank >= since]
            unseen = (
                restore_exchanges(own) if len(own) <= _FEW_ROWS else await asyncio.to_thread(restore_exchanges, own)
            )
            if page == count or len(unseen) < page or (more := await asyncio.to_thread(needed, unseen)) <= page:
                # At once: the run may change the messages in place.
                stored = stored_exchanges(own, unseen) if len(own) <= _MOST_STORED else None
                return unseen, stored, len(rows)
            page = min(more, count)

    async def _states(self, session: SessionRecord, before_rank: int) -> Mapping[str, bytes]:
        stored = await self._store.session_state(session.id, before_rank)
        try:
            return {} if stored is None else unpack_states(stored)
        except StateRefused:
            raise
        except Exception:
            # Whatever the bytes are, the stored messages serve.
            log.warning("session state not readable", exc_info=True, extra={"session_id": session.id})
            return {}

    async def end(
        self,
        warm: WarmAgent,
        memory: Memory,
        checkpoints: ExchangeCheckpoints,
        rows: Sequence[MessageRecord],
        *,
        is_ok: bool,
    ) -> Ended:
        """What a run leaves whose exchange ends with the stored messages `rows`. If it does not end well, those of its
        graph don't count.

        Never raises: without a state, the next exchange starts from the one before.
        """
        next_rank = rows[-1].rank + 1
        try:
            values = checkpoints.last_values(_wanted(warm, is_ok and memory.window > 0))
            messages = values.pop("messages", None)
            left = as_left(messages)
            if left is not None and not _is_same(left, messages):
                values = {name: value for name, value in values.items() if name in warm.flow.kept_channels}
            graphs = lasting(checkpoints.snapshot())
            if not values and graphs is None:
                if left is not None and (as_stored := _as_stored(memory, left, rows)) is not None:
                    return Ended(memory=as_stored)
                if are_short_texts(left or ()):
                    return _ended(warm, memory, values, left, graphs, next_rank)
            # In a thread, because they may be long, and a deep agent's files large.
            return await asyncio.to_thread(_ended, warm, memory, values, left, graphs, next_rank)
        except Exception:
            # RuntimeError, for example: code of the graph that runs on changes a value while it is packed.
            log.warning("graph state not kept", exc_info=True, extra={"agent_id": warm.key[1]})
            return Ended()


def _log_restored(how: Restore, window: int, rows: int, began: float, log_fields: Mapping[str, object] | None) -> None:
    took_ms = round((time.monotonic() - began) * 1000)
    told = {"restore": how, "window": window, "rows": rows, "ms": took_ms}
    log.info("session restored", extra={**(log_fields or {}), **told})


def _restored(warm: WarmAgent, states: Mapping[str, bytes]) -> tuple[Kept, list[Any]]:
    agent_id = warm.key[1]
    if agent_id not in states:
        return NOTHING, []
    try:
        return restore(Kept.unpack(states[agent_id]), warm.flow.get_compiled_graph(), agent_id, warm.serde)
    except StateRefused:
        raise
    except Exception:
        log.warning("agent state not readable", exc_info=True, extra={"agent_id": agent_id})
        return NOTHING, []


def _as_stored(memory: Memory, left: Sequence[Any], rows: Sequence[MessageRecord]) -> Memory | None:
    """The memory of a graph whose messages, `left`, say what is stored; None if they say something else, or are many.

    `rows` are those of the exchange that has ended. What is stored is read within bounds, so it stands for no more than
    is well within them.
    """
    past = divided(left)
    if memory.stored is None or past.front or len(left) > _MOST_STORED:
        return None
    stored = [*memory.stored, stored_exchange(rows, restore_exchange(rows))]
    if sum(exchange.size for exchange in stored) > LONGEST_STORED:
        return None
    messages = [message for exchange in past.exchanges for message in exchange.messages]
    contents = [content for exchange in stored for content in exchange.contents]
    if len(messages) != len(contents) or any(map(ne, map(content_of, messages), contents)):
        return None
    last = [message for exchange in past.exchanges[-memory.window :] for message in exchange.messages]
    next_rank, stored = rows[-1].rank + 1, stored[-memory.window :]
    return replace(memory, next_rank=next_rank, left=last, unseen=(), stored=stored, restore=None)


def _is_same(left: Sequence[Any], messages: Sequence[Any]) -> bool:
    return len(left) == len(messages) and all(one is other for one, other in zip(left, messages, strict=True))


def _wanted(warm: WarmAgent, with_messages: bool) -> Mapping[str, Any]:
    """The channels to keep; `messages`, and what belongs to them, only `with_messages`."""
    flow, channels = warm.flow, warm.flow.get_compiled_graph().channels
    names = flow.kept_channels | ({"messages", *flow.private_channels} if with_messages else frozenset())
    return {name: channels[name] for name in names}


def _ended(
    warm: WarmAgent,
    memory: Memory,
    values: Mapping[str, Any],
    left: Sequence[Any] | None,
    graphs: Snapshot | None,
    next_rank: int,
) -> Ended:
    """`left` are the messages that the graph left, `graphs` what its lasting graphs did; None keeps what was before."""
    agent_id, serde = warm.key[1], warm.serde
    packed = pack_channels(values, serde)
    own = {name: one for name, one in packed.items() if name in warm.flow.kept_channels}
    kept, messages = memory.kept._replace(channels=own), list(memory.left)
    if left is not None:
        messages, packed_messages = pack_messages(last_exchanges(left, memory.window), agent_id, serde)
        kept = kept.without_messages()
        if packed_messages is not None:
            private = (
                {name: one for name, one in packed.items() if name not in own} if len(messages) == len(left) else {}
            )
            kept = kept._replace(messages=packed_messages, private=private, rank=next_rank)
    if graphs is not None:
        # What can't be kept begins anew: an older memory would not fit what else is kept.
        kept = kept._replace(graphs=pack_lasting(graphs, warm.flow.get_compiled_graph(), agent_id) or b"")
    names = [*kept.channels, *kept.private, *(["messages"] if kept.messages is not None else [])]
    kept = kept._replace(forms=forms_of(warm.flow.get_compiled_graph(), names))
    state = kept.pack()
    if memory.states.get(agent_id) == state or (agent_id not in memory.states and kept == NOTHING):
        states, stored = memory.states, None
    else:
        others = {name: packed for name, packed in memory.states.items() if name != agent_id}
        states = _bounded({**others, agent_id: state})
        stored = pack_states(states)
    if kept.rank != next_rank and memory.window:
        # The exchange's messages are not among the kept ones: the next one reads them from the store.
        return Ended(stored)
    return Ended(stored, Memory(memory.window, next_rank, memory.reset_rank, kept, messages, (), states))


def _bounded(states: dict[str, bytes]) -> dict[str, bytes]:
    """The states without the messages and the subgraphs of the agents that answered earlier, as many as are too large
    together.
    """
    for agent_id in states:
        if sum(map(len, states.values())) <= STATE_BYTES:
            break
        log.warning("session state too large", extra={"agent_id": agent_id})
        states[agent_id] = Kept.unpack(states[agent_id]).without_messages()._replace(graphs=b"").pack()
    return states
