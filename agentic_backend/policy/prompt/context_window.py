"""ContextWindow: how much of a session's past fits beside the system prompt and the question. Pure.

Whole exchanges are taken, the newest first, so that no call is ever separated from its result. A past of any length
fits, because the rest of it is left out. Only a question that has no room of its own is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.errors import ContextTooLong

MOST_MESSAGES = 50
"""How many messages are given to a model whose context window is unknown."""

RESERVE_TOKENS = 800
"""The tokens that are left for the response unless a chat profile says otherwise."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands for the session's messages below `to_rank`. Without a `text`, these are just left out."""

    text: str = field(repr=False)
    to_rank: int


@dataclass(frozen=True, slots=True)
class PastExchange:
    """An exchange as a model would be given it. `first_rank` is None where its messages don't tell."""

    first_rank: int | None
    messages: Sequence[Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Taken:
    exchanges: Sequence[PastExchange]
    lacks_room: bool
    """Whether exchanges are left out beside which there was no room; not for one that would not fit alone."""


@dataclass(frozen=True, slots=True)
class ContextWindow:
    tokens: int | None
    """The most tokens that the model takes; None if nobody knows."""
    exchanges: int
    """The most past exchanges that the agent is given."""
    reserve: int = RESERVE_TOKENS
    """The tokens that are left for the response; never more than half of the window."""

    def room(self, prompt: int, question: int) -> int | None:
        """The tokens that are left for the past; None if the window is unknown.

        `prompt` and `question` are the tokens of the system prompt and of the user's message. Raises ContextTooLong if
        these do not fit.
        """
        if self.tokens is None:
            return None
        most = self.tokens - min(self.reserve, self.tokens // 2) - prompt
        if question > most:
            raise ContextTooLong(
                f"This message is too long for the model: it has about {question} tokens, and there is room for "
                f"{max(most, 0)}. Send less."
            )
        return most - question

    def taken(self, past: Sequence[PastExchange], room: int | None, count: Callable[[Any], int]) -> Taken:
        """The last of `past`, which is in order, that fit into `room`; `count` tells the tokens of a message.

        An exchange that would not fit alone is left out, and the ones before it are taken: so a message that was
        refused for its length takes no history away. What is older than the first one that no longer fits is not
        counted.
        """
        found: list[PastExchange] = []
        rest, messages, lacks_room = room, 0, False
        for one in reversed(past):
            if len(found) >= self.exchanges:
                break
            if room is None or rest is None:
                messages += len(one.messages)
                if messages > MOST_MESSAGES and found:
                    break
            else:
                tokens = _tokens_of(one, room, count)
                if tokens > room:
                    continue
                if lacks_room := tokens > rest:
                    break
                rest -= tokens
            found.append(one)
        return Taken(found[::-1], lacks_room)


def _tokens_of(exchange: PastExchange, most: int, count: Callable[[Any], int]) -> int:
    """The tokens of the exchange; of one that has more than `most`, not all are counted."""
    tokens = 0
    for message in exchange.messages:
        tokens += count(message)
        if tokens > most:
            break
    return tokens
