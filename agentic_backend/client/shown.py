"""What a reader has been shown of an exchange: its messages, and the texts that are being written."""

from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    Delta,
    Event,
    Final,
    HumanRequests,
    Reset,
    Started,
    Stream,
)
from agentic_backend.protocol.messages import Channel, ChatMessage, Role
from agentic_backend.protocol.parts import text_of


class Shown:
    """`messages` by rank. `awaiting` is what waits for a person. `final` is the end, once it has come."""

    def __init__(self) -> None:
        self.messages: dict[int, ChatMessage] = {}
        self.awaiting: HumanRequests | None = None
        self.final: Final | None = None
        self._written: dict[int, tuple[Channel, list[str]]] = {}
        """The channel and the pieces of text of each open block."""

    @property
    def text(self) -> str:
        """The text of the answer, as far as it has been written."""
        for message in reversed(self.messages.values()):
            if message.role is Role.ASSISTANT and message.channel is Channel.FINAL:
                return text_of(message.parts)
        return "".join("".join(pieces) for channel, pieces in self._written.values() if channel is Channel.FINAL)

    def apply(self, event: Event) -> None:
        match event:
            case Started():
                self._show([], {})
            case Reset(messages=messages, partial=partial):
                self._show(messages, {each.block: (each.channel, [each.text]) for each in partial})
            case Delta(block=block, channel=channel, text=text):
                pieces = self._written[block][1] if block in self._written else []
                pieces.append(text)
                self._written[block] = channel, pieces
                self.awaiting = None
            case Stream(message=message, block=block):
                self.messages[message.rank] = message
                if block is not None:
                    self._written.pop(block, None)
                self.awaiting = None
            case Activity():
                self.awaiting = None
            case AwaitingHuman(payload=requests):
                self.awaiting = requests
            case Final(messages=messages):
                self._show(messages, {})
                self.final = event

    def _show(self, messages: list[ChatMessage], written: dict[int, tuple[Channel, list[str]]]) -> None:
        self.messages = {message.rank: message for message in messages}
        self._written = written
        self.awaiting = None
