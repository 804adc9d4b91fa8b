"""The codecs of a socket: what a form of the protocol makes of frames and events. This one is Chat Protocol v2's."""

from collections.abc import Sequence
from typing import Any, Protocol

from agentic_backend.protocol.events import Event
from agentic_backend.protocol.frames import ClientFrame, validate_frame


class Codec(Protocol):
    """One per socket."""

    name: str
    text_interval_s: float
    """The interval between two sends of text, in seconds."""
    knows_clients_ids: bool
    """Whether an exchange's id on the wire is the one that its client gave, where it gave one."""

    def read(self, raw: dict[str, Any]) -> ClientFrame:
        """The client's frame. Raises BadFrame."""
        ...

    def render(self, event: Event) -> Sequence[str]:
        """The frames for `event`, in order; none if this codec does not send it."""
        ...

    def name_exchange(self, exchange_id: str, client_exchange_id: str) -> None:
        """Tell the client's id for an exchange, before any event of it."""
        ...


class ChatV2:
    name = "chat.v2"
    text_interval_s = 0.05
    knows_clients_ids = False

    def read(self, raw: dict[str, Any]) -> ClientFrame:
        return validate_frame(raw)

    def render(self, event: Event) -> Sequence[str]:
        return (event.encode(),)

    def name_exchange(self, exchange_id: str, client_exchange_id: str) -> None:
        """Each exchange has the server's id here."""
