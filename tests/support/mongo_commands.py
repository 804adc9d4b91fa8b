"""Records the commands that a MongoDB client sends, and how often it waits for answers."""

import asyncio
from collections.abc import Mapping
from typing import Any

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

_QUIET_S = 0.2


class Commands(CommandListener):
    """`sent` are all commands since the last `clear`; `replies` are their replies so far.

    `trips` are their names, those together that were on their way at the same time: an operation waits once for these.
    """

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []
        self.trips: list[list[str]] = []
        self._on_their_way = 0

    @property
    def names(self) -> list[str]:
        """Each command as `find sessions`."""
        return [_name(command) for command in self.sent]

    def clear(self) -> None:
        self.sent, self.replies, self.trips = [], [], []

    async def quiet(self) -> None:
        """Wait until nothing is on its way, and nothing more is sent."""
        sent = -1
        while self._on_their_way or sent != len(self.sent):
            sent = len(self.sent)
            await asyncio.sleep(_QUIET_S)

    def started(self, event: CommandStartedEvent) -> None:
        self.sent.append(dict(event.command))
        if not self._on_their_way or not self.trips:
            self.trips.append([])
        self.trips[-1].append(_name(self.sent[-1]))
        self._on_their_way += 1

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.replies.append(dict(event.reply))
        self._on_their_way -= 1

    def failed(self, event: CommandFailedEvent) -> None:
        self.replies.append({})
        self._on_their_way -= 1


def _name(command: Mapping[str, Any]) -> str:
    return " ".join(map(str, next(iter(command.items()))))
