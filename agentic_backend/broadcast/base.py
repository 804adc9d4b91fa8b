"""Broadcast: how the instances on one store tell each other of their exchanges.

The store has the truth; what is told here is the live view, which may come late or not at all without anything being
lost. No method waits for the network: an instance works as well while nobody can be told anything.
"""

from typing import Protocol

from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.protocol.messages import Session


class Listener(Protocol):
    """Told what happens on other instances; called in the event loop's thread."""

    def stop_here(self, exchange_id: str) -> None:
        """Somebody wants the exchange stopped, wherever it runs."""
        ...

    def started_elsewhere(self, session_id: str, exchange_id: str, user_id: str) -> None:
        """Another instance runs this exchange from now on: it has begun, or goes on after a pause."""
        ...

    def changed_elsewhere(self, session: Session) -> None:
        """The session's title or state has changed."""
        ...


class Broadcast(Protocol):
    def listen(self, listener: Listener) -> None:
        """Tell `listener`, the only one, from now on."""
        ...

    def publish(self, log: ExchangeLog) -> None:
        """Show the events of an exchange that runs here to the other instances, to its end."""
        ...

    def mirror(self, log: ExchangeLog) -> bool:
        """Fill `log` with what another instance publishes of its exchange, while somebody follows it and to its end.

        False where nothing can be published. A log that `is_filling` is told when all is there that was shown already.
        """
        ...

    def started(self, log: ExchangeLog) -> None:
        """Tell the others that the exchange runs here."""
        ...

    def changed(self, session: Session) -> None: ...

    def stop(self, exchange_id: str) -> None:
        """Ask whoever runs the exchange to stop it."""
        ...


class Alone:
    """The broadcast of an instance that is the only one."""

    def listen(self, listener: Listener) -> None: ...

    def publish(self, log: ExchangeLog) -> None: ...

    def mirror(self, log: ExchangeLog) -> bool:
        return False

    def started(self, log: ExchangeLog) -> None: ...

    def changed(self, session: Session) -> None: ...

    def stop(self, exchange_id: str) -> None: ...
