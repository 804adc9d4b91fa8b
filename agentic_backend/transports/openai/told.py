"""What a request tells of a conversation: instructions, what was said before, and what is asked. Pure.

Both forms give a list of messages. The last ones, after the agent's last, are what is asked now: a message of the user,
or answers to what the agent has asked a person.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from mimetypes import guess_extension
from typing import Literal

from agentic_backend.errors import BadFrame, MessageTooLarge
from agentic_backend.protocol.frames import MOST_PAST

MOST_MESSAGES = 2_000
"""The number of messages that a request may have."""
_BASE64_BYTES, _OF_CHARACTERS = 3, 4


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """A file within a request: base64, perhaps as a `data:` URL."""

    data: str = field(repr=False)
    name: str | None = None

    def decoded(self, most_bytes: int) -> tuple[str, bytes]:
        """Its name and content. Raises BadFrame and MessageTooLarge."""
        head, comma, data = self.data.partition(",") if self.data.startswith("data:") else ("", "", self.data)
        if len(data) // _OF_CHARACTERS * _BASE64_BYTES > most_bytes + _BASE64_BYTES:
            raise MessageTooLarge(f"messages: a file is larger than the limit of {most_bytes} bytes")
        if self.data.startswith("data:") and not (comma and head.endswith(";base64")):
            raise BadFrame("messages: a file's data URL is to be in base64")
        try:
            content = b64decode(data, validate=True)
        except (NotBase64, ValueError):
            raise BadFrame("messages: a file is not in base64") from None
        mime = head.removeprefix("data:").split(";")[0]
        return self.name or f"file{guess_extension(mime) or ''}", content


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the conversation; `result` is an answer to the call `call_id`."""

    role: Literal["instructions", "user", "assistant", "result"]
    text: str = field(repr=False)
    files: Sequence[EncodedFile] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Told:
    instructions: str = field(repr=False)
    past: Sequence[Said] = field(repr=False)
    """What was said before, by the user and the agent."""
    asked: Sequence[Said] = field(repr=False)
    """The user's message; empty where there are answers."""
    answers: Mapping[str, str] = field(repr=False)
    """The answers of a person, by the ids of the calls that asked for them."""

    @property
    def text(self) -> str:
        return "\n\n".join(message.text for message in self.asked if message.text)

    @property
    def files(self) -> list[EncodedFile]:
        return [file for message in self.asked for file in message.files]

    @property
    def last_answer(self) -> str:
        """What the agent has said last, as the client has it; empty if it tells nothing."""
        return next((message.text for message in reversed(self.past) if message.role == "assistant"), "")


def told_by(messages: Sequence[Said]) -> Told:
    """Raises BadFrame if nothing is asked."""
    instructions = "\n\n".join(message.text for message in messages if message.role == "instructions" and message.text)
    spoken = [message for message in messages if message.role != "instructions"]
    now = list(takewhile(lambda message: message.role != "assistant", reversed(spoken)))[::-1]
    asked = [message for message in now if message.role == "user"]
    answers = {message.call_id or "": message.text for message in now if message.role == "result"}
    if not asked and len(answers) < sum(message.role == "result" for message in now):
        raise BadFrame("messages: the same call is answered twice")
    if answers and asked and now[-1].role == "result":
        raise BadFrame("messages: the user's last message comes before the answers of tools, which are what is asked")
    if asked:
        # The answers before it belong to calls of other servers: what waits for one takes no other message.
        answers = {}
    elif not answers:
        raise BadFrame("messages: the last one is to be the user's")
    before = [message for message in spoken[: len(spoken) - len(now)] if message.role != "result"]
    past = [message for message in before if message.text or message.files]
    # The earlier ones are not read.
    return Told(instructions, past[-MOST_PAST:], asked, answers)


def said_of(role: str, text: str, files: Sequence[EncodedFile] = (), call_id: str | None = None) -> Said:
    """A message by the role that OpenAI's forms give it."""
    match role:
        case "system" | "developer":
            return Said("instructions", text)
        case "tool" | "function":
            return Said("result", text, call_id=call_id)
        case "assistant":
            return Said("assistant", text)
    return Said("user", text, files)
