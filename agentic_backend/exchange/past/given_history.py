"""GivenHistory: what of a session's past a run is given: what its graph left, and what the graph has not seen. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from agentic_backend.agents.state.kept_state import Packed
from agentic_backend.exchange.past.left_messages import (
    LeftMessages,
    divided,
    first_rank_of,
    prompt_message,
    summary_message,
)
from agentic_backend.exchange.past.recall import Memory
from agentic_backend.policy.prompt.context_window import MOST_MESSAGES, ContextWindow, PastExchange, Summary


@dataclass(frozen=True, slots=True)
class GivenHistory:
    """`left` and then `unseen` stand before the user's message."""

    channels: Mapping[str, Packed] = field(default_factory=dict)
    """The channels that the graph left; the private ones of middleware only beside all messages that it left."""
    left: Sequence[Any] = ()
    unseen: Sequence[Any] = ()
    lacks_room: bool = False
    """Whether exchanges are left out because they don't fit beside the others, and a summary could stand for them."""


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """`room` is what the prompt and the question leave of `window`; `count` tells the tokens of a message."""

    window: ContextWindow
    room: int | None
    count: Callable[[Any], int]

    def needed(self, exchanges: Sequence[Sequence[BaseMessage]]) -> int:
        """How many of the last exchanges fill the room, as far as the last of them, `exchanges`, tell."""
        if self.room is None:
            taken, room = sum(map(len, exchanges)), MOST_MESSAGES
        else:
            sizes = [sum(map(self.count, exchange)) for exchange in exchanges]
            taken, room = sum(size for size in sizes if size <= self.room), self.room
        if taken > room:
            return len(exchanges)
        # A few more, because the earlier ones may be shorter.
        return len(exchanges) + 1 + round(1.2 * len(exchanges) * (room - taken) / max(taken, 1))


def given_history(
    memory: Memory, limits: HistoryLimits, *, prompt: str | None = None, summary: Summary | None = None
) -> GivenHistory:
    """The last exchanges of `memory` that fit, after `summary`, which stands for those before its rank.

    `prompt` is put in front of everything, as a system message. The summary is left out if the graph has kept none of
    its users' messages: it condenses its past itself.
    """
    past = divided(memory.left) if limits.window.exchanges else LeftMessages((), ())
    condenses_itself = bool(past.exchanges) and past.exchanges[0].first_rank is None
    if limits.window.exchanges == 0 or condenses_itself:
        summary = None
    summaries = [summary_message(summary)] if summary is not None and summary.text else []
    room, front = _beside(limits.room, past.front, limits.count)
    room, summed_up = _beside(room, summaries, limits.count)
    unseen = [PastExchange(first_rank_of(one[0]), one) for one in memory.unseen if one]
    since = _since(summary, [*past.exchanges, *unseen])
    taken = limits.window.taken(since, room, limits.count)
    lacks_room = taken.lacks_room and not condenses_itself
    of_left = set(map(id, past.exchanges))
    left = [*front, *summed_up, *_messages(one for one in taken.exchanges if id(one) in of_left)]
    given = _messages(one for one in taken.exchanges if id(one) not in of_left)
    begin = [prompt_message(prompt)] if prompt is not None else []
    if not memory.left:
        return GivenHistory(memory.channels(is_whole=True), unseen=[*begin, *left, *given], lacks_room=lacks_room)
    left = [*begin, *left]
    return GivenHistory(memory.channels(is_whole=_ids(left) == _ids(memory.left)), left, given, lacks_room)


def _beside(room: int | None, messages: Sequence[Any], count: Callable[[Any], int]) -> tuple[int | None, Sequence[Any]]:
    """The room that is left beside `messages`, and these; without them if they don't fit."""
    if room is None:
        return None, messages
    rest = room - sum(map(count, messages))
    return (room, ()) if rest < 0 else (rest, messages)


def _since(summary: Summary | None, exchanges: Sequence[PastExchange]) -> Sequence[PastExchange]:
    """The exchanges that the summary does not stand for."""
    if summary is None:
        return exchanges
    return [one for one in exchanges if one.first_rank is None or one.first_rank >= summary.to_rank]


def _messages(exchanges: Iterable[PastExchange]) -> list[Any]:
    return [message for exchange in exchanges for message in exchange.messages]


def _ids(messages: Sequence[Any]) -> list[object]:
    return [message.id if isinstance(message, BaseMessage) else id(message) for message in messages]
