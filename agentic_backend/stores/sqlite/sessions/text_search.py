"""TextSearch: a search of words in the messages of users' sessions, by the index of texts and in what it lacks yet."""

import json
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence

from agentic_backend.stores.protocol.message_search import SEARCHED_CHANNEL
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.sqlite.operation_base import columns, select
from agentic_backend.stores.sqlite.sessions.text_index import BLOCK_MESSAGES, match_of, number_at, rank_at
from agentic_backend.stores.tables import MESSAGES, SESSIONS

_ALL_RANKS = 1 << 62
_RECENT = 8_000
"""The messages that are read before the index is asked: a common word is in many blocks, and soon found without them.

To read a session costs as much as _OF_SESSION messages.
"""
_OF_SESSION = 20
_ORDER = "ORDER BY updated_at DESC, id DESC"
_BLOCKS = "SELECT rowid FROM message_texts WHERE message_texts MATCH ? ORDER BY rowid DESC"

_Found = Generator[tuple[SessionRecord, list[MessageRecord]], None, None]


class TextSearch:
    """Of the messages, only those of SEARCHED_CHANNEL count if `only_said`.

    `user_id` is None for the sessions of all users, which are read without the index.
    """

    def __init__(
        self, db: sqlite3.Connection, user_id: str | None, folded_words: Sequence[str], *, only_said: bool = True
    ) -> None:
        self._db = db
        self._words = folded_words
        self._given = {f"word{number}": word for number, word in enumerate(folded_words)}
        self._match = None if user_id is None else match_of(user_id, folded_words, only_said=only_said)
        self._channel = f"channel = '{SEARCHED_CHANNEL.value}'" if only_said else "TRUE"

    def sessions(self, condition: str, parameters: Mapping[str, object], hits: int, *, by_title: bool = True) -> _Found:
        """The sessions under `condition` that hold all words in a message, or in their title, the last updated first.

        Each comes with its last messages that do, at most `hits`. One state of the database is read, until the iterator
        is closed.
        """
        self._db.execute("BEGIN")
        try:
            if self._match is None:
                yield from self._read(condition, parameters, hits, by_title)
            else:
                yield from self._looked_up(condition, parameters, hits, by_title)
        finally:
            self._db.rollback()

    def _read(self, condition: str, parameters: Mapping[str, object], hits: int, by_title: bool) -> _Found:
        """What is found without the index."""
        holds = f"{self._titled(by_title)} OR {self._unindexed('0')}"
        for row in self._rows(f"{condition} AND ({holds})", parameters, by_title):
            yield SESSIONS.record_of(dict(row)), self._between(row["id"], 0, _ALL_RANKS, hits)

    def _looked_up(self, condition: str, parameters: Mapping[str, object], hits: int, by_title: bool) -> _Found:
        left = _RECENT
        for row in self._rows(condition, parameters, by_title):
            messages = self._between(row["id"], 0, _ALL_RANKS, hits)
            if messages or row["is_titled"]:
                yield SESSIONS.record_of(dict(row)), messages
            left -= row["message_count"] + _OF_SESSION
            if left < 0:
                break
        else:
            return
        blocks = self._blocks()
        indexed = "text_number IN (SELECT value FROM json_each(:numbers))"
        unindexed = f"indexed_rank < next_rank AND {self._unindexed('sessions.indexed_rank')}"
        rest = f"{condition} AND (updated_at, id) < (:read_at, :read_id)"
        place = {"read_at": row["updated_at"], "read_id": row["id"], "numbers": json.dumps(list(blocks))}
        holds = f"({self._titled(by_title)} OR {indexed} OR {unindexed})"
        for row in self._rows(f"{rest} AND {holds}", {**parameters, **place}, by_title):
            messages = self._hits(row, blocks.get(row["text_number"], ()), hits)
            if messages or row["is_titled"]:
                yield SESSIONS.record_of(dict(row)), messages

    def _rows(self, condition: str, parameters: Mapping[str, object], by_title: bool) -> Iterator[sqlite3.Row]:
        """The sessions under `condition`, the last updated first."""
        marks = f"text_number, indexed_rank, {self._titled(by_title)} AS is_titled"
        sql = f"SELECT {columns(SESSIONS)}, {marks} FROM sessions WHERE {condition} {_ORDER}"
        return self._db.execute(sql, {**parameters, **self._given})

    def _titled(self, by_title: bool) -> str:
        return f"({_holding('search_title', self._given)})" if by_title else "FALSE"

    def _unindexed(self, from_rank: str) -> str:
        """The condition on a session that it has a message from that rank on with the words."""
        return f"""EXISTS (
            SELECT 1 FROM messages WHERE messages.session_id = sessions.id AND messages.rank >= {from_rank}
                AND {self._channel} AND {_holding("messages.search_text", self._given)})"""

    def _blocks(self) -> dict[int, list[int]]:
        """The ranks of the blocks that may have the words, the last ones first, by their session's `text_number`."""
        found: dict[int, list[int]] = {}
        for (place,) in self._db.execute(_BLOCKS, (self._match,)):
            found.setdefault(number_at(place), []).append(rank_at(place))
        return found

    def _hits(self, session: sqlite3.Row, blocks: Sequence[int], limit: int) -> list[MessageRecord]:
        """The session's last messages that have the words, the last one first, of what isn't indexed and its blocks."""
        below = session["indexed_rank"]
        found = self._between(session["id"], below, _ALL_RANKS, limit)
        for rank in blocks:
            if len(found) == limit:
                break
            found += self._between(session["id"], rank, min(rank + BLOCK_MESSAGES, below), limit - len(found))
            below = rank
        return found

    def _between(self, session_id: str, rank: int, below_rank: int, limit: int) -> list[MessageRecord]:
        holding = " AND ".join(["instr(search_text, ?)"] * len(self._words)) or "TRUE"
        condition = f"session_id = ? AND rank >= ? AND rank < ? AND {self._channel} AND {holding}"
        parameters = [session_id, rank, below_rank, *self._words, limit]
        return select(self._db, MESSAGES, f"{condition} ORDER BY rank DESC LIMIT ?", parameters)


def _holding(column: str, given: Mapping[str, str]) -> str:
    """The condition that a column holds all words."""
    return " AND ".join(f"instr({column}, :{name})" for name in given) or "TRUE"
