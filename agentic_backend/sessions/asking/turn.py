"""Turn: a person's ask, independent of its transport. Transports build it from their frame or body."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal
from uuid import uuid4

import orjson

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.disclosure.redaction import credential_in
from agentic_backend.errors import BadFrame, MessageTooLarge
from agentic_backend.exact_json import all_exact
from agentic_backend.protocol import frames
from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.protocol.parts import Part, text_of
from agentic_backend.sessions.asking.attached import GivenFile
from agentic_backend.stores.records import MessageDraft

_SHOWN_KEY = 80


@dataclass(frozen=True, slots=True)
class PastMessage:
    """A message before a query, as the client tells it."""

    role: Literal["user", "assistant"]
    text: str = field(repr=False)
    files: Sequence[GivenFile] = ()


def past_messages(history: Sequence[frames.PastMessage]) -> tuple[PastMessage, ...]:
    """What a client's frame says was said before."""
    return tuple(PastMessage(message.role, message.content) for message in history)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    parts: Sequence[Part] = field(repr=False)
    """The person's message; at least one part."""
    mode: Literal["chat", "query"] = "chat"
    """A query has no session, and no history but what it brings."""
    session_id: str | None = None
    """The id of the session; None opens a new one, unless it is a query."""
    agent_id: str | None = None
    """The id of the agent; None means the session's agent, or the catalog's default."""
    chat_profile: str | None = None
    """The chat profile of this exchange, and of a new session; None means the session's, or the agent's."""
    scope: Mapping[str, str] = field(default_factory=dict)
    """Whose settings apply to a new session beside the user's: an id by the kind of scope, such as a class."""
    attachments: Sequence[str] = ()
    """The ids of the files that belong to the message."""
    client_exchange_id: str | None = None
    """The client's id for the exchange: a repeated ask with the same id starts nothing."""
    runtime_context: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The client's data for the agent; never used as identity."""
    instructions: str = field(default="", repr=False)
    """What the client's program asks of the agent beside the message."""
    new_session_id: str | None = None
    """The id of the session that it opens; None makes one."""
    history: Sequence[PastMessage] = ()
    """What was said before a query; a session has its own."""
    files: Sequence[GivenFile] = ()
    """The files of a query."""

    @property
    def text(self) -> str:
        return text_of(list(self.parts))

    @property
    def message(self) -> MessageDraft:
        """The first message of its exchange."""
        return MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=list(self.parts))

    def id_of_new_session(self, user_id: str) -> str:
        """A new id; for an ask with attachments that may be repeated, the same each time.

        So if an ask's answer is lost, its attachments are not in another session when it is asked again.
        """
        if self.new_session_id is not None:
            return self.new_session_id
        if not self.attachments or self.client_exchange_id is None:
            return uuid4().hex
        named = orjson.dumps([user_id, self.client_exchange_id, *self.attachments])
        return sha256(named).hexdigest()[:32]

    def check(self, limits: LimitsSettings) -> None:
        """Check the sizes and the context. Raises MessageTooLarge or BadFrame, which name the field and the reason."""
        if len(self.text.encode()) > limits.message_bytes:
            raise MessageTooLarge(f"message: larger than the limit of {limits.message_bytes} bytes")
        if len(self.instructions.encode()) > limits.message_bytes:
            raise MessageTooLarge(f"instructions: larger than the limit of {limits.message_bytes} bytes")
        if self.attachments and self.mode == "query":
            raise BadFrame("attachments: a query keeps nothing, so it takes none")
        files = [*self.files, *(each for message in self.history for each in message.files)]
        if max(len(self.attachments), len(files)) > limits.attachments_per_ask:
            raise BadFrame(f"attachments: more than the limit of {limits.attachments_per_ask}")
        if len(set(self.attachments)) < len(self.attachments):
            raise BadFrame("attachments: one is named twice")
        try:
            runtime_context = orjson.dumps(self.runtime_context)
        except orjson.JSONEncodeError:
            raise BadFrame("runtime_context: nested too deeply, or with an integer beyond 64 bits") from None
        if len(runtime_context) > limits.runtime_context_bytes:
            raise BadFrame(f"runtime_context: larger than the limit of {limits.runtime_context_bytes} bytes")
        if not all_exact(self.runtime_context):
            raise BadFrame("runtime_context: with an integer beyond 64 bits")
        # The context is stored, so it may hold no credential. After the size check, which bounds its depth.
        if (key := credential_in(self.runtime_context)) is not None:
            raise BadFrame(f"runtime_context: the key {key[:_SHOWN_KEY]!r} names a credential")
