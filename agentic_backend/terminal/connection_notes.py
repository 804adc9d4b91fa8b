"""ConnectionNotes: tells when the connection is lost, and when it is back."""

import logging

from agentic_backend.terminal.keyboard import Keyboard
from agentic_backend.terminal.screen import Screen

_CLIENT = "agentic_backend.client"


class ConnectionNotes(logging.Handler):
    """Hears what the Python client logs, and says it once for each loss; never while a person types."""

    def __init__(self, screen: Screen, keyboard: Keyboard) -> None:
        super().__init__(logging.INFO)
        self._screen = screen
        self._keyboard = keyboard
        self._told = False

    def install(self) -> None:
        log = logging.getLogger(_CLIENT)
        log.setLevel(logging.INFO)
        log.addHandler(self)
        log.propagate = False
        # Other packages have nothing to say on this screen.
        logging.getLogger().addHandler(logging.NullHandler())

    def emit(self, record: logging.LogRecord) -> None:
        if not self._told and not self._keyboard.is_read:
            self._told = True
            cause = getattr(record, "cause", record.getMessage())
            self._screen.note(f"no connection ({cause}): trying again")

    def heard(self) -> None:
        """The server has sent something."""
        if self._told:
            self._told = False
            self._screen.note("connected again")
