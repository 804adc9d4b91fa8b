"""Commands: what a line that begins with a slash does."""

from collections.abc import Callable
from pathlib import Path

from agentic_backend.client import ChatMessage, Refused
from agentic_backend.protocol.messages import Role, TokenUsage
from agentic_backend.protocol.parts import text_of
from agentic_backend.protocol.views import AgentView
from agentic_backend.terminal.conversation import Conversation
from agentic_backend.terminal.safe_text import safe_line
from agentic_backend.terminal.screen import Screen, reason_of
from agentic_backend.terminal.shown_exchange import told

HELP = """\
/agents [AGENT]   lists the agents; with one, talks to it from the next question on
/new [AGENT]      begins a new session
/history          shows the session's messages
/usage            tells the tokens of the last answer and of the session
/export [FILE]    writes the session to a new file: JSON if it ends in .json, else Markdown; without a file it shows it
/help             lists the commands
/quit             leaves; so do Ctrl-D and, while nothing runs, Ctrl-C
Ctrl-C stops an answer. Two slashes begin a question that begins with one."""


class Quit(Exception):
    """The person leaves."""


class UnknownAgent(Exception):
    """The text names the agents that there are."""


class Commands:
    def __init__(self, conversation: Conversation, screen: Screen) -> None:
        self._conversation = conversation
        self._screen = screen
        self._commands: dict[str, Callable[[str], None]] = {
            "agents": self._agents,
            "new": self._new,
            "history": self._history,
            "usage": self._usage,
            "export": self._export,
            "help": lambda _: self._screen.say(HELP),
            "quit": self._quit,
        }

    def run(self, line: str) -> bool:
        """Run a line such as `/new assistant`; return whether it succeeded. Raises Quit, and ChatError."""
        name, _, argument = line.removeprefix("/").partition(" ")
        command = self._commands.get(name)
        if command is None:
            self._screen.fault(f"There is no /{name}: /help lists the commands.")
            return False
        try:
            command(argument.strip())
        except Refused as refused:
            self._screen.fault(refused.content)
            return False
        # A path may hold what no file system takes, or name nobody's home.
        except (OSError, ValueError, RuntimeError, UnknownAgent) as error:
            self._screen.fault(reason_of(error))
            return False
        return True

    def choose(self, wanted: str | None) -> AgentView | None:
        """Talk to an agent, by its id or its name; to the default one without either. Raises UnknownAgent."""
        agents = self._conversation.agents()
        if wanted is None:
            default = next((agent for agent in agents if agent.default), None)
            self._conversation.agent = default or next(iter(agents), None)
            return self._conversation.agent
        for agent in agents:
            if wanted.casefold() in (agent.id.casefold(), agent.name.casefold()):
                self._conversation.agent = agent
                return agent
        ids = ", ".join(agent.id for agent in agents)
        raise UnknownAgent(f"There is no agent {wanted}; there are: {ids}")

    def _agents(self, wanted: str) -> None:
        if wanted:
            self._tell(self.choose(wanted))
            return
        current = self._conversation.agent
        for agent in self._conversation.agents():
            mark = "*" if current is not None and agent.id == current.id else " "
            self._screen.say(f"{mark} {safe_line(f'{agent.id}: {agent.name}. {agent.description}')}")

    def _new(self, wanted: str) -> None:
        if wanted:
            self.choose(wanted)
        self._conversation.begin()
        self._tell(self._conversation.agent)

    def _history(self, _: str) -> None:
        messages = self._conversation.messages()
        if not messages:
            self._screen.say("There is nothing yet.")
        for message in messages:
            self._screen.say(_shown(message))

    def _usage(self, _: str) -> None:
        self._screen.say(f"last answer: {_tokens(self._conversation.usage)}")
        self._screen.say(f"session: {_tokens(self._conversation.total)}")

    def _export(self, name: str) -> None:
        if self._conversation.session_id is None:
            self._screen.say("There is nothing yet.")
            return
        text = self._conversation.export(Path(name).expanduser() if name else None)
        self._screen.say(text if not name else f"Written to {name}")

    def _quit(self, _: str) -> None:
        raise Quit

    def _tell(self, agent: AgentView | None) -> None:
        self._screen.note(f"You talk to {agent.name}." if agent is not None else "There is no agent.")


def _shown(message: ChatMessage) -> str:
    who = "you" if message.role is Role.USER else message.role.value
    lines = [line for line in map(told, message.parts) if line is not None]
    if message.role is not Role.TOOL:
        lines.insert(0, text_of(message.parts))
    return f"{who}: " + "\n".join(filter(None, lines))


def _tokens(usage: TokenUsage) -> str:
    told = [
        f"{count} {what}"
        for count, what in ((usage.input_tokens, "read"), (usage.output_tokens, "written"))
        if count is not None
    ]
    return f"{', '.join(told)} tokens" if told else "no tokens are known"
