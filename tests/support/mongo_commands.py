"""Records the commands that a MongoDB client sends."""

from typing import Any

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent


class Commands(CommandListener):
    """`sent` are all commands since the last `clear`; `replies` are their replies so far."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []

    @property
    def names(self) -> list[str]:
        """Each command as `find sessions`."""
        return [" ".join(map(str, next(iter(command.items())))) for command in self.sent]

    def clear(self) -> None:
        self.sent, self.replies = [], []

    def started(self, event: CommandStartedEvent) -> None:
        self.sent.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.replies.append(dict(event.reply))

    def failed(self, event: CommandFailedEvent) -> None:
        self.replies.append({})
