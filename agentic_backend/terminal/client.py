"""The terminal client, from its connection to its end."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import NoReturn

from agentic_backend.client import Chat, ChatError, Unreachable, connect
from agentic_backend.client.tokens import TokenSource, token_of_environment
from agentic_backend.terminal.connection_notes import ConnectionNotes
from agentic_backend.terminal.conversation import Conversation
from agentic_backend.terminal.embedded_server import CannotServe, EmbeddedServer
from agentic_backend.terminal.keyboard import Keyboard
from agentic_backend.terminal.loop_thread import LoopThread
from agentic_backend.terminal.screen import Screen, reason_of
from agentic_backend.terminal.typed_commands import Commands, Quit, UnknownAgent

_OPEN_S = 15
"""The longest wait for the first connection."""
_STARTERS = 3


def chat(*, agent: str | None, url: str | None, token_file: Path | None, serve: Sequence[str]) -> int:
    """Chat with an agent of the server at `url`, or of one that the command `serve` starts and that ends with this.

    `agent` is its id or name; without it the default one. The token is in `token_file`, which is read again whenever
    another is needed, or in the environment. Returns the exit status: 1 where there was no server or, of asks that
    come through a pipe, one has failed; 2 where there is no such agent or file.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    screen, keyboard = Screen(), Keyboard()
    try:
        with ExitStack() as stack:
            token = _token_of(token_file)
            if url is None:
                screen.note("Starting a server …")
                server = stack.enter_context(EmbeddedServer(serve))
                url = server.address
                for line in server.warnings():
                    screen.note(line)
            return _chat(stack, screen, keyboard, url, token, agent)
    except CannotServe as error:
        screen.fault(f"The server could not start:\n{error}")
    except (OSError, ValueError, UnknownAgent) as error:
        if isinstance(error, BrokenPipeError):
            # Nobody reads on. What is left in the buffer has nowhere to go either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        screen.fault(reason_of(error))
        return 2
    except ChatError as error:
        screen.fault(str(error))
    except KeyboardInterrupt:
        screen.end_line()
        return 128 + signal.SIGINT
    return 1


def _chat(stack: ExitStack, screen: Screen, keyboard: Keyboard, url: str, token: TokenSource, agent: str | None) -> int:
    notes = ConnectionNotes(screen, keyboard)
    notes.install()
    thread = stack.enter_context(LoopThread())
    closing = AsyncExitStack()
    stack.callback(lambda: thread.call(closing.aclose()))
    client = thread.call(_opened(closing, url, token))
    notes.heard()
    conversation = Conversation(client, thread, screen, keyboard, notes.heard)
    commands = Commands(conversation, screen)
    chosen = commands.choose(agent)
    if keyboard.is_live and chosen is not None:
        screen.note(f"{chosen.name} at {url}. /help lists the commands; Ctrl-C stops an answer.")
        if chosen.starters:
            screen.note(f"Try: {' | '.join(chosen.starters[:_STARTERS])}")
    keyboard.hear_interrupts()
    return _converse(conversation, commands, keyboard, screen)


def _converse(conversation: Conversation, commands: Commands, keyboard: Keyboard, screen: Screen) -> int:
    """Ask each line until the person leaves; return the exit status."""
    succeeded = True
    with contextlib.suppress(Quit):
        while True:
            try:
                line = keyboard.read_ask()
            except (EOFError, KeyboardInterrupt):
                break
            if line.startswith("/") and not line.startswith("//"):
                succeeded &= commands.run(line)
            elif line:
                succeeded &= conversation.ask(line.removeprefix("/") if line.startswith("//") else line)
    return 0 if succeeded or keyboard.is_live else 1


async def _opened(closing: AsyncExitStack, url: str, token: TokenSource) -> Chat:
    """Raises ValueError if `url` is none, and ChatError."""
    try:
        async with asyncio.timeout(_OPEN_S):
            return await closing.enter_async_context(connect(url, token=token))
    except TimeoutError:
        raise Unreachable(f"No server answers at {url}.") from None


def _token_of(file: Path | None) -> TokenSource:
    """Raises OSError if the file can't be read."""
    if file is None:
        return token_of_environment()
    file.read_text()
    return lambda: file.read_text().strip()


def _leave(number: int, frame: object) -> NoReturn:
    """End as at Ctrl-C, so that the embedded server ends too."""
    sys.exit(128 + number)
