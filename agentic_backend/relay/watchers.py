"""Watchers: the feeds that are notified when a session changes or an exchange starts in it.

Owned by the relay, which notifies them of events on this and on other instances.
"""

from typing import Protocol

from agentic_backend.protocol.messages import Session
from agentic_backend.relay.log.exchange_log import ExchangeLog


class Watcher(Protocol):
    def exchange_started(self, log: ExchangeLog) -> None:
        """An exchange has begun in the session, or continues after a pause; its readers keep their places."""
        ...

    def session_changed(self, session: Session) -> None: ...


class Watchers:
    def __init__(self) -> None:
        self._of: dict[str, dict[Watcher, bool]] = {}
        """The watchers of each session, by session id, and whether each is notified of exchanges too."""

    def watch(self, session_id: str, watcher: Watcher, *, exchanges_too: bool) -> None:
        """Notify `watcher` of the session's changes and, with `exchanges_too`, of every exchange that starts in it."""
        watchers = self._of.setdefault(session_id, {})
        watchers[watcher] = exchanges_too or watchers.get(watcher, False)

    def unwatch(self, session_id: str, watcher: Watcher) -> None:
        watchers = self._of.get(session_id, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._of.pop(session_id, None)

    def want_exchanges(self, session_id: str) -> bool:
        """Whether any watcher is notified of the session's exchanges."""
        return any(self._of.get(session_id, {}).values())

    def exchange_started(self, log: ExchangeLog) -> None:
        for watcher, exchanges_too in list(self._of.get(log.session_id or "", {}).items()):
            if exchanges_too:
                watcher.exchange_started(log)

    def session_changed(self, session: Session) -> None:
        for watcher in list(self._of.get(session.id, {})):
            watcher.session_changed(session)
