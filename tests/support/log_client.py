"""A client of an exchange's log: it applies events as the contract says, and may lose some in transit."""

from collections.abc import Sequence

from agentic_backend.protocol.events import AwaitingHuman, Delta, ExchangeEvent, Final, Reset, Started, Stream
from agentic_backend.relay.log.exchange_log import Cursor, ExchangeLog


class LogClient:
    """Deltas add to their block, a stream replaces its block; a reset replaces everything, as `started` does."""

    def __init__(self, log: ExchangeLog) -> None:
        self._log = log
        self.seq = 0
        self.messages: dict[int, str] = {}
        self.blocks: dict[int, str] = {}
        self.waits_for: str | None = None
        self.final: str | None = None
        self.resets = 0
        self.cursor: Cursor | None = None
        self.follow()

    def follow(self, after_seq: int | None = None) -> None:
        """Follow after the last seen event, or after `after_seq`: the start, or a seq that never existed."""
        self.leave()
        self.cursor = self._log.follow(self.seq if after_seq is None else after_seq, lambda: None)

    def leave(self) -> None:
        if self.cursor is not None:
            self._log.unfollow(self.cursor)
            self.cursor = None

    def read(self, at_most: int | None = None) -> list[ExchangeEvent]:
        """Take all available events; if there are more than `at_most`, the connection breaks after these."""
        assert self.cursor is not None
        events = self.cursor.take()
        check_order(events)
        if at_most is not None and at_most < len(events):
            self.leave()
            events = events[:at_most]
        for event in events:
            self.apply(event)
        return events

    def catch_up(self) -> None:
        if self.cursor is None:
            self.follow()
        self.read()

    def apply(self, event: ExchangeEvent) -> None:
        if isinstance(event, Started):
            self.messages, self.blocks, self.waits_for = {}, {}, None
        elif isinstance(event, Reset):
            self.resets += 1
            self.messages = {message.rank: message.model_dump_json() for message in event.messages}
            self.blocks = {partial.block: f"{partial.channel}: {partial.text}" for partial in event.partial}
            self.waits_for = None
        elif event.seq <= self.seq:
            return
        elif isinstance(event, Delta):
            self.blocks[event.block] = self.blocks.get(event.block, f"{event.channel}: ") + event.text
        elif isinstance(event, Stream):
            self.messages[event.message.rank] = event.message.model_dump_json()
            if event.block is not None:
                self.blocks.pop(event.block, None)
        elif isinstance(event, AwaitingHuman):
            self.waits_for = event.payload.model_dump_json()
        elif isinstance(event, Final):
            self.final = event.encode()
        self.seq = event.seq

    @property
    def transcript(self) -> tuple[dict[int, str], dict[int, str], str | None, str | None]:
        """The client's whole view: the messages, the open texts, the awaited decision, the end."""
        return self.messages, self.blocks, self.waits_for, self.final


def check_order(events: Sequence[ExchangeEvent]) -> None:
    seqs = [event.seq for event in events]
    assert seqs == sorted(set(seqs)), "seqs rise strictly"
    assert not any(isinstance(event, Reset) for event in events[1:]), "a reset comes first"
