"""PartialStore: the unfinished texts of exchanges that run, so that a crash of their owner loses little of them.

A short text is rewritten as it grows. What a long one has grown by is added in pieces, so that its cost follows its
length; the exchange keeps the beginning, as it was then, in its own row.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentic_backend.protocol.events import PartialText


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPiece:
    """What a text of an exchange has grown by since the piece before; `number` counts those of one run."""

    id: str
    """Of the exchange, the owner and the number, so that a repeated write replaces it."""
    session_id: str
    exchange_id: str
    owner: str
    """The instance that ran the exchange then."""
    number: int
    text: PartialText

    @classmethod
    def of(cls, session_id: str, exchange_id: str, owner: str, number: int, text: PartialText) -> "PartialPiece":
        return cls(
            id=f"{exchange_id}:{owner}:{number}",
            session_id=session_id,
            exchange_id=exchange_id,
            owner=owner,
            number=number,
            text=text,
        )


class PartialStore(Protocol):
    async def keep_partials(self, owner: str, partials: Mapping[str, Sequence[PartialText]]) -> None:
        """Store the unfinished texts, by exchange id, of those exchanges that `owner` still runs."""
        ...

    async def add_partials(self, pieces: Sequence[PartialPiece]) -> None:
        """Add to the unfinished texts of those exchanges that the owners of these pieces still run."""
        ...

    async def forget_pieces(self, exchange_ids: Collection[str]) -> None:
        """Delete what was added to the unfinished texts of these exchanges."""
        ...

    async def partial(self, exchange_id: str) -> list[PartialText]:
        """The unfinished text that was stored last, without blocks that have been stored as messages since."""
        ...


def joined(beginning: Iterable[PartialText], pieces: Iterable[PartialText]) -> list[PartialText]:
    """The texts, one for each block, from their beginning and from what they have grown by."""
    parts: dict[int, list[str]] = {}
    firsts: dict[int, PartialText] = {}
    for text in (*beginning, *pieces):
        firsts.setdefault(text.block, text)
        parts.setdefault(text.block, []).append(text.text)
    return [text.model_copy(update={"text": "".join(parts[block])}) for block, text in firsts.items()]
