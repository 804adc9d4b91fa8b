"""Numbers: the numbers by which an answer cites passages, from 1 on in each exchange, the same for the same passage."""

import threading

from agentic_backend.experts.documentation.document_index import Passage


class Numbers:
    """Owned by the expert of one session, whose exchanges come one after another. Its tool may run in many threads."""

    def __init__(self) -> None:
        self._exchange_id = ""
        self._known: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def of(self, exchange_id: str, passage: Passage) -> int:
        with self._lock:
            if exchange_id != self._exchange_id:
                self._exchange_id, self._known = exchange_id, {}
            return self._known.setdefault((passage.file, passage.heading), len(self._known) + 1)
