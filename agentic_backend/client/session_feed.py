"""SessionFeed: all that happens in a session, as its reader sees it, whatever happens to the connection."""

from collections.abc import Callable, Iterator

from agentic_backend.client.event_reader import EventReader
from agentic_backend.client.places import Place
from agentic_backend.protocol.events import Event, ExchangeEvent, Final
from agentic_backend.protocol.frames import Follow

_OPEN_AT_MOST = 100


class SessionFeed(EventReader):
    """An asynchronous iterator of the events of a session: what runs, what begins later, `session`, `idle`.

    After a lost connection, and where this reader was too slow, what runs is shown anew from its `started`, and `idle`
    tells that nothing does. An exchange that both began and ended in the meantime is missing: its messages are a gap in
    the ranks, which `Rest.messages` fills.
    """

    def __init__(
        self, session_id: str, *, send: Callable[[Follow], None], forget: Callable[["SessionFeed"], None]
    ) -> None:
        super().__init__(follow=lambda: send(self.frame), forget=lambda: forget(self))
        self.session_id = session_id
        self._places: dict[str, Place] = {}
        """The reader's place in each exchange that has not ended, by its id."""

    @property
    def frame(self) -> Follow:
        return Follow(session_id=self.session_id)

    def follows(self) -> Iterator[Follow]:
        """What makes a server show the rest of the exchanges whose beginning the reader has seen."""
        for exchange_id, place in self._places.items():
            yield Follow(session_id=self.session_id, exchange_id=exchange_id, after_seq=place.seq or 0)

    def take(self, event: Event, size: int) -> None:
        """Keep an event of this session, which came with `size` bytes, if it counts."""
        if self._is_behind or (isinstance(event, ExchangeEvent) and not self._counts(event)):
            return
        if not self._keep(event, size):
            self._places.clear()

    def _counts(self, event: ExchangeEvent) -> bool:
        place = self._places.get(event.exchange_id) or Place()
        if not place.takes(event):
            return False
        self._places[event.exchange_id] = place
        if isinstance(event, Final):
            del self._places[event.exchange_id]
        elif len(self._places) > _OPEN_AT_MOST:
            del self._places[next(iter(self._places))]
        return True
