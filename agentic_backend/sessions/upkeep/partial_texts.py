"""PartialTexts: keeps the unfinished texts of this instance's exchanges in the store, as they grow.

Owned by Maintenance, which calls `keep` again and again. Short texts are written whole each time; to long ones only
what is new is added, and that is deleted once the exchange no longer runs here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentic_backend.protocol.events import PartialText
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.partials import PartialPiece

# Small batches: each text is read just before its write, and other writes get their turn in between.
_AT_ONCE = 50
# Up to so many characters, the unfinished texts of an exchange are written whole.
_WHOLE = 65_536
# The most characters of a piece: a database may limit its rows.
_LONGEST_PIECE = 1_000_000


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is stored of an exchange's texts: up to which seq, how many characters by block, and how many pieces."""

    seq: int = 0
    lengths: Mapping[int, int] = field(default_factory=dict)
    pieces: int = 0


class PartialTexts:
    def __init__(self, instance_id: str, store: Store, relay: Relay) -> None:
        self._instance_id = instance_id
        self._store = store
        self._relay = relay
        self._kept: dict[str, _Kept] = {}
        """By the id of an exchange that runs here, or that did and has pieces."""

    async def keep(self) -> None:
        """Store what has changed since the last call. Raises StoreUnavailable; the next call repeats the rest."""
        logs = [log for log in self._relay.running_logs if log.session_id is not None]
        await self._forget_all_but({log.exchange_id for log in logs})
        changed = [log for log in logs if self._kept.get(log.exchange_id, _Kept()).seq != log.last_seq]
        for start in range(0, len(changed), _AT_ONCE):
            await self._keep(changed[start : start + _AT_ONCE])

    async def _forget_all_but(self, running: set[str]) -> None:
        ended = {exchange_id: kept for exchange_id, kept in self._kept.items() if exchange_id not in running}
        if with_pieces := [exchange_id for exchange_id, kept in ended.items() if kept.pieces]:
            await self._store.forget_pieces(with_pieces)
        for exchange_id in ended:
            # Another call may have forgotten it meanwhile.
            self._kept.pop(exchange_id, None)

    async def _keep(self, logs: Iterable[ExchangeLog]) -> None:
        whole: dict[str, Sequence[PartialText]] = {}
        pieces: list[PartialPiece] = []
        kept: dict[str, _Kept] = {}
        for log in logs:
            before, lengths = self._kept.get(log.exchange_id, _Kept()), log.partial_lengths
            if not before.pieces and sum(lengths.values()) <= _WHOLE:
                whole[log.exchange_id] = log.partial
                kept[log.exchange_id] = _Kept(log.last_seq, lengths)
            else:
                added = self._pieces(log, before)
                pieces += added
                kept[log.exchange_id] = _Kept(log.last_seq, lengths, before.pieces + len(added))
        if whole:
            await self._store.keep_partials(self._instance_id, whole)
        if pieces:
            await self._store.add_partials(pieces)
        self._kept |= kept

    def _pieces(self, log: ExchangeLog, before: _Kept) -> list[PartialPiece]:
        assert log.session_id is not None, "nothing is stored of a query"
        texts = [
            text.model_copy(update={"text": text.text[start : start + _LONGEST_PIECE]})
            for text in log.partial_after(before.lengths)
            for start in range(0, len(text.text), _LONGEST_PIECE)
        ]
        return [
            PartialPiece.of(log.session_id, log.exchange_id, self._instance_id, number, text)
            for number, text in enumerate(texts, start=before.pieces)
        ]
