"""TextIndex: SQLite's index of messages' texts, which finds any part of one by its groups of three characters.

`message_texts` is an FTS5 table without the texts themselves. One of its rows is a block: messages of one session that
follow one another, at most BLOCK_MESSAGES; `said` are those of SEARCHED_CHANNEL, `others` the rest. The row's id, the
block's place, is the session's `text_number` and the rank of the block's first message. A session's messages below its
`indexed_rank` are in the index; a search reads the others itself. So nothing is indexed while an exchange runs: a chore
does it once the session is idle, or has grown.

The index only narrows a search: words may be spread over a block's messages, and a very long message isn't indexed, but
its block found by every search of its user. Who searches looks at the messages of the blocks.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b

from agentic_backend.stores.protocol.message_search import SEARCHED_CHANNEL

BLOCK_MESSAGES = 64
BLOCK_CHARS = 4 * 1024
"""A block ends before the message with which its texts would be longer."""
WRITTEN_CHARS = 16 * 1024
"""One write indexes about as much,"""
FORGOTTEN_CHARS = 16 * WRITTEN_CHARS
"""and takes about as much out of the index."""
LONGEST_TEXT = 128 * 1024
"""A longer text, in characters, isn't indexed: it would keep other writers waiting."""
IDLE = timedelta(minutes=10)
"""After so much time without a message, a session is indexed as it is,"""
LONG_TAIL = 2 * BLOCK_MESSAGES
"""or with so many messages that are not."""

_RANK_BITS = 28
# Longer texts narrow a search no further, and cost more.
_WORDS, _WORD_CHARS = 16, 32
_SHORTEST_WORD = 3
# About a megabyte.
_MERGED_PAGES = 256

_DUE = f"""
    SELECT id FROM sessions INDEXED BY sessions_unindexed
    WHERE indexed_rank < next_rank AND (updated_at < ? OR next_rank - indexed_rank >= {LONG_TAIL}) LIMIT ?
"""
_GIVE_NUMBER = """
    UPDATE sessions SET text_number = coalesce(text_number, (SELECT coalesce(max(text_number), 0) + 1 FROM sessions))
    WHERE id = ? RETURNING user_id, text_number, indexed_rank, next_rank
"""
_UNINDEXED = "SELECT rank, channel, search_text FROM messages WHERE session_id = ? AND rank >= ? ORDER BY rank LIMIT ?"
_TEXTS = "SELECT channel, search_text FROM messages WHERE session_id = ? AND rank >= ? AND rank < ? ORDER BY rank"
_SET_INDEXED = "UPDATE sessions SET indexed_rank = ? WHERE id = ?"
_INSERT = "INSERT INTO message_texts (rowid, owner, said, others) VALUES (?, ?, ?, ?)"
_LAST_PLACE = "SELECT rowid FROM message_texts WHERE rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT 1"
# Of an index that holds no texts, a row goes by what was inserted.
_FORGET = "INSERT INTO message_texts (message_texts, rowid, owner, said, others) VALUES ('delete', ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class TextPlaces:
    """The places of one session's blocks."""

    text_number: int

    def place(self, rank: int) -> int:
        return (self.text_number << _RANK_BITS) | rank

    @property
    def bounds(self) -> tuple[int, int]:
        """The first place, and the one behind the last."""
        return self.place(0), (self.text_number + 1) << _RANK_BITS


def number_at(place: int) -> int:
    return place >> _RANK_BITS


def rank_at(place: int) -> int:
    return place & ((1 << _RANK_BITS) - 1)


def match_of(user_id: str, folded_words: Sequence[str], *, only_said: bool) -> str | None:
    """The condition on a block that may have a message of the user's with all words; None if they are too short."""
    searched = "said" if only_said else "{said others}"
    words = [_indexed(word[:_WORD_CHARS]) for word in folded_words if len(word) >= _SHORTEST_WORD][:_WORDS]
    if not words:
        return None
    holds = " AND ".join('{} : "{}"'.format(searched, word.replace('"', '""')) for word in words)
    return f'(owner : "{_mark(user_id)}" AND {holds}) OR owner : "{_mark(user_id, is_long=True)}"'


def due_sessions(db: sqlite3.Connection, idle_since: str, limit: int) -> list[str]:
    """At most `limit` ids of sessions that have messages to index."""
    return [row["id"] for row in db.execute(_DUE, (idle_since, limit))]


def index_sessions(db: sqlite3.Connection, session_ids: Sequence[str]) -> None:
    """Index the next messages of these sessions, about WRITTEN_CHARS of text."""
    chars = 0
    for session_id in session_ids:
        while (block := _index_block(db, session_id)) is not None:
            chars += block.chars
            if chars >= WRITTEN_CHARS:
                return


def forget_session(db: sqlite3.Connection, session_id: str, max_chars: int | None = None) -> int:
    """Take the session's messages out of the index, the last ones first; the characters that were in these blocks.

    Ends once that is `max_chars`.
    """
    session = db.execute(
        "SELECT user_id, text_number, indexed_rank FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    if session is None or session["text_number"] is None:
        return 0
    places, below, chars = TextPlaces(session["text_number"]), session["indexed_rank"], 0
    while max_chars is None or chars < max_chars:
        row = db.execute(_LAST_PLACE, places.bounds).fetchone()
        if row is None:
            break
        rank = rank_at(row["rowid"])
        block = _Block(rank, below)
        for channel, text in db.execute(_TEXTS, (session_id, rank, below)):
            block.add(channel, text)
        db.execute(_FORGET, (places.place(rank), *block.row(session["user_id"])))
        chars, below = chars + max(1, block.chars), rank
    db.execute(_SET_INDEXED, (below, session_id))
    return chars


def merge_index(db: sqlite3.Connection) -> bool:
    """Merge some more pages of the index into one part, which has nothing of what was forgotten; False if it is one."""
    before = db.total_changes
    db.execute("INSERT INTO message_texts (message_texts, rank) VALUES ('merge', ?)", (-_MERGED_PAGES,))
    # By itself the command counts as one change.
    return db.total_changes - before > 1


def _index_block(db: sqlite3.Connection, session_id: str) -> "_Block | None":
    """Index the session's next block; None if there is none."""
    session = db.execute(_GIVE_NUMBER, (session_id,)).fetchone()
    # It may have been deleted meanwhile.
    if session is None or session["indexed_rank"] >= session["next_rank"]:
        return None
    block = _next_block(db, session_id, session["indexed_rank"], session["next_rank"])
    if block.chars:
        place = TextPlaces(session["text_number"]).place(block.first_rank)
        db.execute(_INSERT, (place, *block.row(session["user_id"])))
    db.execute(_SET_INDEXED, (block.end_rank, session_id))
    return block


@dataclass(slots=True)
class _Block:
    """The messages from `first_rank` on, below `end_rank`."""

    first_rank: int
    end_rank: int
    said: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    chars: int = 0

    def has_room(self, text: str) -> bool:
        return self.chars == 0 or self.chars + len(text) <= BLOCK_CHARS

    def add(self, channel: str, text: str) -> None:
        if text:
            (self.said if channel == SEARCHED_CHANNEL.value else self.others).append(text)
            self.chars += len(text)

    def row(self, user_id: str) -> tuple[str, str, str]:
        """What is indexed: whose it is, and the texts, unless they are too long."""
        if self.chars > LONGEST_TEXT:
            return _mark(user_id, is_long=True), "", ""
        return _mark(user_id), _indexed("\n".join(self.said)), _indexed("\n".join(self.others))


def _next_block(db: sqlite3.Connection, session_id: str, from_rank: int, next_rank: int) -> _Block:
    """The session's messages from that rank on, as far as one block holds them; `next_rank` is the session's."""
    block: _Block | None = None
    count = 0
    # One row more than the block holds shows whether it is the last.
    for rank, channel, text in db.execute(_UNINDEXED, (session_id, from_rank, BLOCK_MESSAGES + 1)):
        block = block or _Block(rank, next_rank)
        count += 1
        if count > BLOCK_MESSAGES or not block.has_room(text):
            block.end_rank = rank
            break
        block.add(channel, text)
    return block or _Block(from_rank, next_rank)


def _indexed(text: str) -> str:
    # The text that FTS5 reads ends at the first zero.
    return text.replace("\x00", "\ufffd")


def _mark(user_id: str, *, is_long: bool = False) -> str:
    """The three characters, one group, that stand for a user. Two users may have the same: who searches looks."""
    digest = blake2b(user_id.encode(), digest_size=6, person=b"long" if is_long else b"own").digest()
    # Of the plane for private use, whose last two code points are no characters.
    return "".join(chr(0xF0000 + int.from_bytes(digest[at : at + 2]) % 0xFFFE) for at in (0, 2, 4))
