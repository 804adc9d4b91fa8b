"""A broadcast listener that records its calls."""

from agentic_backend.protocol.messages import ExchangeStatus, Session


class ToldListener:
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.fails = False
        self.misses = 0

    def stop_here(self, exchange_id: str) -> None:
        if self.fails:
            raise RuntimeError("not today")
        self.told.append(("stopped", exchange_id))

    def started_elsewhere(self, session_id: str, exchange_id: str, user_id: str) -> None:
        self.told.append(("started", session_id, exchange_id, user_id))

    def changed_elsewhere(self, session: Session) -> None:
        self.told.append(("changed", session))

    def list_changed_elsewhere(self, user_id: str, session_id: str, ended: ExchangeStatus | None) -> None:
        self.told.append(("news", user_id, session_id, ended))

    def agents_changed_elsewhere(self) -> None:
        self.told.append(("agents",))

    def may_have_missed(self) -> None:
        self.misses += 1
