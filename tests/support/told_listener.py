"""A broadcast listener that records its calls."""

from agentic_backend.protocol.messages import Session


class ToldListener:
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.fails = False

    def stop_here(self, exchange_id: str) -> None:
        if self.fails:
            raise RuntimeError("not today")
        self.told.append(("stopped", exchange_id))

    def started_elsewhere(self, session_id: str, exchange_id: str, user_id: str) -> None:
        self.told.append(("started", session_id, exchange_id, user_id))

    def changed_elsewhere(self, session: Session) -> None:
        self.told.append(("changed", session))
