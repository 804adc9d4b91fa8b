"""AgentRun: what one ask has come to, and what a test asserts about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.protocol.events import ErrorInfo, ExchangeEvent, Final, HumanRequest
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Role, TokenUsage
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, text_of


@dataclass(frozen=True)
class ToolUse:
    """A call of a tool, and its result; `ok` is false where it failed or was cancelled."""

    name: str
    args: Mapping[str, Any]
    result: str | None = None
    ok: bool | None = None


@dataclass(frozen=True, repr=False)
class AgentRun:
    """One exchange, from its `started` to its `final`. `repr` and `str` are its transcript."""

    events: Sequence[ExchangeEvent]
    """Chat Protocol v2, as clients receive it."""
    state: Mapping[str, Any]
    """What the session keeps of the agent's graph after a good end: its messages and its other output channels, by
    name.
    """
    requests: Sequence[HumanRequest] = ()
    """What people were asked, in order."""
    blocked_hosts: Sequence[str] = field(default_factory=list)
    """The hosts that something has tried to reach while the network was blocked."""

    @property
    def final(self) -> Final:
        last = self.events[-1]
        assert isinstance(last, Final), "a run has a final"
        return last

    @property
    def status(self) -> ExchangeStatus:
        """`ok`, `error`, `stopped`, `blocked` or `interrupted`."""
        return self.final.status

    @property
    def error(self) -> ErrorInfo | None:
        """Why it ended so, where an error did it; its `detail` is the agent's own exception."""
        return self.final.error

    @property
    def messages(self) -> Sequence[ChatMessage]:
        """All messages of the exchange, the ask first."""
        return self.final.messages

    @property
    def usage(self) -> TokenUsage:
        return self.final.usage

    @property
    def final_text(self) -> str:
        """The text of the answer. Raises AssertionError with the transcript if there is none."""
        answers = [one for one in self.messages if (one.role, one.channel) == (Role.ASSISTANT, Channel.FINAL)]
        if not answers:
            # Not by `assert`, whose message pytest would indent.
            raise AssertionError(f"there is no answer: {self}")
        return text_of(answers[-1].parts)

    def texts(self, channel: Channel | str) -> list[str]:
        """The texts of the messages of a channel, such as `thought`."""
        return [text_of(message.parts) for message in self.messages if message.channel == channel]

    @property
    def tool_uses(self) -> list[ToolUse]:
        """The calls of tools, in order, each with its result."""
        parts = [part for message in self.messages for part in message.parts]
        results = {part.call_id: part for part in parts if isinstance(part, ToolResultPart)}
        uses = []
        for part in parts:
            if isinstance(part, ToolCallPart):
                result = results.get(part.call_id)
                told = (None, None) if result is None else (result.content, result.ok)
                uses.append(ToolUse(part.name, part.args, *told))
        return uses

    def tool_called(self, name: str, /, **args: Any) -> bool:
        """Whether the tool was called with these arguments, and perhaps others."""
        return any(
            use.name == name and all(key in use.args and use.args[key] == value for key, value in args.items())
            for use in self.tool_uses
        )

    def __repr__(self) -> str:
        lines = [f"AgentRun: {self.status}"]
        lines += [f"  {_told(message)}" for message in self.messages]
        if self.error is not None:
            detail = self.error.detail
            lines.append(f"  error {self.error.code}: {self.error.content}")
            lines += [f"    {detail.type}: {detail.text} ({detail.where})"] if detail is not None else []
        lines += [f"  blocked: {host}" for host in dict.fromkeys(self.blocked_hosts)]
        return "\n".join(lines)


def _told(message: ChatMessage) -> str:
    told = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            told.append(f"{part.name}({', '.join(f'{key}={value!r}' for key, value in part.args.items())})")
        else:
            told.append(text_of([part]))
    return f"{message.role}/{message.channel}: {' '.join(filter(None, told))}"
