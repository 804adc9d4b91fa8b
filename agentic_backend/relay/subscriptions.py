"""The subscriptions of feeds: what each is notified of, of single sessions and of the list of a user's sessions.

Owned by the relay, which notifies them of events on this and on other instances. What list subscribers are told is read
from the store by ListUpdates.
"""

from typing import Protocol

from agentic_backend.protocol.events import SessionChanged, SessionDeleted
from agentic_backend.protocol.messages import Session
from agentic_backend.relay.log.exchange_log import ExchangeLog


class SessionSubscriber(Protocol):
    def exchange_started(self, log: ExchangeLog) -> None:
        """An exchange has begun in the session, or continues after a pause; its readers keep their places."""
        ...

    def session_changed(self, session: Session) -> None: ...


class SessionSubscriptions:
    def __init__(self) -> None:
        self._of: dict[str, dict[SessionSubscriber, bool]] = {}
        """The subscribers of each session, by session id, and whether each is notified of exchanges too."""

    def add(self, session_id: str, subscriber: SessionSubscriber, *, exchanges_too: bool) -> None:
        """Notify it of the session's changes and, with `exchanges_too`, of every exchange that starts in it."""
        subscribers = self._of.setdefault(session_id, {})
        subscribers[subscriber] = exchanges_too or subscribers.get(subscriber, False)

    def remove(self, session_id: str, subscriber: SessionSubscriber) -> None:
        subscribers = self._of.get(session_id, {})
        subscribers.pop(subscriber, None)
        if not subscribers:
            self._of.pop(session_id, None)

    def want_exchanges(self, session_id: str) -> bool:
        """Whether any subscriber is notified of the session's exchanges."""
        return any(self._of.get(session_id, {}).values())

    def exchange_started(self, log: ExchangeLog) -> None:
        for subscriber, exchanges_too in list(self._of.get(log.session_id or "", {}).items()):
            if exchanges_too:
                subscriber.exchange_started(log)

    def session_changed(self, session: Session) -> None:
        for subscriber in list(self._of.get(session.id, {})):
            subscriber.session_changed(session)


class ListSubscriber(Protocol):
    """A feed that follows all sessions of a user, as a client does that shows their list."""

    def session_told(self, told: SessionChanged | SessionDeleted) -> None: ...

    def missed(self) -> None:
        """Changes may have been missed: the list is to be read again."""
        ...


class ListSubscriptions:
    def __init__(self) -> None:
        self._of: dict[str, set[ListSubscriber]] = {}
        """By user id."""

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def add(self, user_id: str, subscriber: ListSubscriber) -> None:
        self._of.setdefault(user_id, set()).add(subscriber)

    def remove(self, user_id: str, subscriber: ListSubscriber) -> None:
        subscribers = self._of.get(user_id, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._of.pop(user_id, None)

    def has(self, user_id: str) -> bool:
        return user_id in self._of

    def tell(self, user_id: str, told: SessionChanged | SessionDeleted) -> None:
        for subscriber in list(self._of.get(user_id, ())):
            subscriber.session_told(told)

    def missed(self, user_id: str | None = None) -> None:
        """Tell the subscribers of this user, or of all, that changes may have been missed."""
        for each in list(self._of) if user_id is None else [user_id]:
            for subscriber in list(self._of.get(each, ())):
                subscriber.missed()
