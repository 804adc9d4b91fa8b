"""What clients of chat runs send: the bodies of the three calls, with names in camelCase."""

from typing import Any, Literal

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from agentic_backend.protocol.frame_rules import message_or_messages
from agentic_backend.protocol.frames import Frame, Id
from agentic_backend.transports.camel_case import CamelBody

_RUN_ID = AliasChoices("runId", "run_id")


class GivenMessage(Frame):
    """A message that the client has. The server has all messages of a conversation itself."""

    role: Literal["user", "assistant", "system"]
    content: str = Field(repr=False)


class StartRun(CamelBody):
    """Either `message`, or `messages`, of which the last must be a user's, and is the only one that counts.

    `conversationId` is a session's id; without it, a new session begins. `runId` is the client's name for the run: a
    run that is started again under the same name is shown, not repeated.
    """

    model_config = ConfigDict(json_schema_extra=message_or_messages)

    message: str | None = Field(default=None, min_length=1, repr=False, examples=["What is the weather in Bern?"])
    messages: list[GivenMessage] = Field(default_factory=list, max_length=1_000, repr=False)
    conversation_id: Id | None = None
    agent_id: Id | None = Field(default=None, validation_alias=AliasChoices("agentId", "agentName"))
    run_id: Id | None = Field(default=None, validation_alias=_RUN_ID)
    chat_profile: Id | None = None
    runtime_context: dict[str, Any] = Field(default_factory=dict, repr=False)
    correlation_id: Id | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "StartRun":
        if (self.message is None) == (not self.messages):
            raise ValueError("message: expected this or messages, and not both")
        if self.message is None and (self.messages[-1].role != "user" or not self.messages[-1].content):
            raise ValueError("messages: expected a message of the user as the last one")
        return self

    @property
    def text(self) -> str:
        return self.message if self.message is not None else self.messages[-1].content


class DecideToolCall(CamelBody):
    """A person's decision on a tool call that waits for one. `message` goes with a rejection."""

    run_id: Id = Field(validation_alias=_RUN_ID)
    tool_call_id: Id
    action: Literal["approve", "reject"]
    message: str | None = Field(default=None, max_length=4_000, repr=False)


class ResumeRun(CamelBody):
    """The run to resume, by its name."""

    run_id: Id = Field(validation_alias=_RUN_ID)
