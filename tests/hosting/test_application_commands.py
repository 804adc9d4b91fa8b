"""The commands of an application, as processes: what is typed, printed, kept, and how they end."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.commanded_application import PATH, Commanded
from support.server_process import command, serving

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Application, Command, User
from agentic_backend.cli import _parser
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.hosting.declared_commands import SERVER_COMMANDS, declared_commands
from agentic_backend.hosting.loading import load_applications

OFFLINE = {"models": {"default": {"model": "offline"}}}


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump({**OFFLINE, "applications": [{"class_path": PATH}]}))
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    return file


async def run(settings: Path, *arguments: str) -> tuple[int, list[str], str]:
    async with command(*arguments, "--config", settings, cwd=settings.parent) as process:
        return await process.ended(), process.stdout.splitlines(), process.stderr


async def test_a_command_is_given_what_is_typed_beside_a_server(settings: Path) -> None:
    keep = ("keep-lines", "lines.txt")
    async with serving("--config", settings, cwd=settings.parent):
        assert (await run(settings, *keep))[:2] == (0, ["one", "two", "2 are kept"])
        status, printed, _ = await run(settings, *keep, "2", "--prefix", "-", "--dry-run")
        assert (status, printed) == (0, ["-one", "-two", "-one", "-two", "2 are kept"])
    status, [printed], _ = await run(settings, "ask", "words 2 0", "--purpose-of", "it")
    assert status == 0 and printed.startswith("it ")
    assert (await run(settings, "tell", "ask"))[:2] == (0, ["ask"])


async def test_what_is_typed_wrong_is_told(settings: Path) -> None:
    status, _, told = await run(settings, "absent", "keep-lines")
    assert status == 2 and told.startswith("There is no command 'absent'; applications have keep-lines, ask, ")
    for arguments, said in (
        (["keep-lines"], "FILE"),
        (["keep-lines", "lines.txt", "x"], "invalid int value: 'x'"),
        (["ask", "text"], "--purpose-of"),
    ):
        status, _, told = await run(settings, *arguments)
        assert status == 2 and said in told and "Traceback" not in told
    status, printed, _ = await run(settings, "keep-lines", "--help")
    assert status == 0 and "Keep the lines of a file, 100 % of them. They are told." in printed


async def test_nobody_has_to_be_named_where_all_are_the_developer(settings: Path) -> None:
    assert (await run(settings, "greet"))[:2] == (0, ["Hello, developer"])
    assert (await run(settings, "greet", "--user", "ann"))[:2] == (0, ["Hello, ann"])
    auth = {"mode": "keycloak", "keycloak": {"realm_url": "http://127.0.0.1:9/realms/chat"}}
    settings.write_text(yaml.safe_dump({**yaml.safe_load(settings.read_text()), "auth": auth}))
    status, _, told = await run(settings, "greet")
    assert status == 2 and "required: --user" in told


async def test_a_command_that_fails_says_why_and_closes_all(settings: Path) -> None:
    told = {
        "fail": "ValueError: this one",
        "refuse": "No more today.",
        "await-cancelled": "asyncio.exceptions.CancelledError: ",
    }
    for name, said in told.items():
        assert await run(settings, name) == (1, [], f"The command failed: {said}\n")
    async with command("wait", "--config", settings, cwd=settings.parent) as process:
        while "waiting" not in process.stdout:
            assert process.process.returncode is None
            await asyncio.sleep(0.02)
        assert await process.stop(signal.SIGINT) == 130
        assert "Traceback" not in process.stderr
    assert (await run(settings, "leave"))[0] == 7


class Another(Commanded):
    """Has the same commands."""

    id = "another"
    records = ()


def test_a_command_of_another_application_is_refused() -> None:
    entries = [ApplicationEntry(class_path=each) for each in (PATH, f"{__name__}:Another")]
    applications = load_applications(entries)
    assert [each.id for each in applications.loaded] == ["commanded"]
    [problem] = applications.problems
    assert "the command 'keep-lines' is also one of the application 'commanded'" in str(problem)


def test_each_command_of_the_server_is_its_own() -> None:
    _, own = _parser()
    assert set(own) == SERVER_COMMANDS


class Odd(Application):
    async def take_help(self, *, help: bool = False) -> None:
        raise NotImplementedError

    async def take_hidden(self, _value: str) -> None:
        raise NotImplementedError

    async def take_place(self, value: str, /) -> None:
        raise NotImplementedError

    async def take_odd(self, value: int = "x") -> None:  # type: ignore[assignment]
        raise NotImplementedError

    async def take_list(self, values: list[str]) -> None:
        raise NotImplementedError

    async def take_more(self, *values: str) -> None:
        raise NotImplementedError

    async def take_flag(self, flag: bool) -> None:
        raise NotImplementedError

    async def take_untyped(self, value) -> None:  # type: ignore[no-untyped-def]
        raise NotImplementedError

    async def take_option(self, *, log_level: str) -> None:
        raise NotImplementedError

    async def take_default_user(self, *, user: User | None = None) -> None:
        raise NotImplementedError

    async def validate(self) -> None:
        raise NotImplementedError

    async def _hidden(self) -> None:
        raise NotImplementedError

    async def take_none(self) -> None:
        raise NotImplementedError

    def block(self) -> None:
        raise NotImplementedError


ODD = Odd(None)


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ("commands", "'commands' has to answer a list"),
        ([ODD.take_none], "'commands' has to answer a list"),
        ([Command(ODD.block)], "no async method"),  # type: ignore[arg-type]
        *[([Command(each)], "has to be a str") for each in (ODD.take_list, ODD.take_more, ODD.take_flag)],
        ([Command(ODD.take_default_user)], "has to be a str"),
        ([Command(ODD.take_option)], "'log_level' is an option of the server's"),
        ([Command(ODD.validate)], "the command 'validate' is the server's own"),
        ([Command(ODD._hidden)], "would be an option"),
        ([Command(ODD.take_untyped)], "has to be a str"),
        *[([Command(each)], "is 'help'") for each in (ODD.take_help, ODD.take_hidden)],
        ([Command(ODD.take_place)], "is not given by name"),
        ([Command(ODD.take_odd)], "a default of another type"),
        ([Command(ODD.take_none)] * 2, "two commands are 'take-none'"),
    ],
)
def test_an_odd_command_is_refused(commands: Any, said: str) -> None:
    with pytest.raises(ClassPathError, match=said):
        declared_commands(commands)
