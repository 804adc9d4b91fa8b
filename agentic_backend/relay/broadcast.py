"""Broadcast: carries the live view of exchanges between the instances on one store.

The store is the source of truth: nothing is lost if a broadcast arrives late or never. No method waits for the network:
an instance also works while the broadcast is unavailable.
"""

from collections.abc import Callable, Collection
from typing import Protocol, assert_never

from agentic_backend.protocol.messages import ExchangeStatus, Session
from agentic_backend.relay.control_messages import (
    AgentsChanged,
    Changed,
    Joined,
    ListChanged,
    ResetWanted,
    StartedHere,
    StopWanted,
    Told,
)
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.system_errors import Away

TellAway = Callable[[Away | None], None]
"""Takes why nothing can be told to other instances; None once it can."""


class Listener(Protocol):
    """Receives messages of other instances; called in the event loop's thread."""

    def stop_here(self, exchange_id: str) -> None:
        """A client of another instance has stopped the exchange; stop it if it runs here."""
        ...

    def started_elsewhere(self, session_id: str, exchange_id: str, user_id: str) -> None:
        """Another instance runs this exchange from now on: it has begun, or continues after a pause."""
        ...

    def changed_elsewhere(self, session: Session) -> None:
        """The session's title or state has changed."""
        ...

    def list_changed_elsewhere(self, user_id: str, session_id: str, ended: ExchangeStatus | None) -> None:
        """Anything of the session has changed (see Relay.tell_lists)."""
        ...

    def agents_changed_elsewhere(self) -> None:
        """The agents of the database have changed."""
        ...

    def may_have_missed(self) -> None:
        """Messages may have been missed until now."""
        ...


class Broadcast(Protocol):
    def listen(self, listener: Listener) -> None:
        """Send messages to `listener` from now on. Called once."""
        ...

    def publish(self, log: ExchangeLog) -> None:
        """Publish the events of an exchange that runs here to the other instances, to its end."""
        ...

    def mirror(self, log: ExchangeLog) -> bool:
        """Copy the events that another instance publishes into `log`, until the exchange ends or nothing reads the log.

        False if there is no broadcast. Calls `filled` of a log that `is_filling` once it has all earlier events.
        """
        ...

    def started(self, log: ExchangeLog) -> None:
        """Tell the other instances that the exchange runs here."""
        ...

    def tell(self, told: Told) -> None:
        """Tell the other instances of what is no event of an exchange."""
        ...

    def stop(self, exchange_id: str) -> None:
        """Ask the exchange's owner to stop it."""
        ...

    def forget(self, exchange_ids: Collection[str]) -> None:
        """Remove what it holds of exchanges that are being deleted."""
        ...


class Alone:
    """The broadcast of a single instance: does nothing."""

    def listen(self, listener: Listener) -> None: ...

    def publish(self, log: ExchangeLog) -> None: ...

    def mirror(self, log: ExchangeLog) -> bool:
        return False

    def started(self, log: ExchangeLog) -> None: ...

    def tell(self, told: Told) -> None: ...

    def stop(self, exchange_id: str) -> None: ...

    def forget(self, exchange_ids: Collection[str]) -> None: ...


def pass_on(told: Told, listener: Listener) -> None:
    """Tell the listener; what concerns the broadcast itself is nothing to it."""
    match told:
        case StopWanted(exchange_id=exchange_id):
            listener.stop_here(exchange_id)
        case StartedHere(session_id=session_id, exchange_id=exchange_id, user_id=user_id):
            listener.started_elsewhere(session_id, exchange_id, user_id)
        case Changed(session=session):
            listener.changed_elsewhere(session)
        case ListChanged(user_id=user_id, session_id=session_id, ended=ended):
            listener.list_changed_elsewhere(user_id, session_id, ended)
        case AgentsChanged():
            listener.agents_changed_elsewhere()
        case Joined() | ResetWanted():
            pass
        case _:
            assert_never(told)
