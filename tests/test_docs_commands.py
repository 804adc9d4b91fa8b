"""The commands of the documentation can be typed: each program, subcommand, flag, target and file is there."""

import re
import subprocess

import pytest
from support.documents import CHECKOUT, PAGES, Block, of
from support.shell_commands import commands, is_setting, make_targets, parsed, subcommands, unknown_flags

SCRIPTS = of("sh", "bash")
OF_OTHERS = set(
    "cp curl do docker done echo export grep helm install jq kill kubectl mkdir mongod openssl pip printf sort sqlite3 "
    "systemctl while keycloak-26.4.0/bin/kc.sh".split()
)
"""Programs of others, whose flags no test knows."""
MENTIONED = [
    (page, command) for page in PAGES for command in re.findall(r"`((?:agentic-backend|make) [^`]+)`", page.read_text())
]


@pytest.mark.parametrize("block", SCRIPTS, ids=str)
def test_a_shell_understands_the_block(block: Block) -> None:
    checked = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("block", SCRIPTS, ids=str)
def test_every_command_of_the_block_is_there(block: Block) -> None:
    for program, *arguments in commands(block.text):
        match program.removeprefix(".venv/bin/"):
            case "agentic-backend":
                parsed(arguments)
            case "make":
                assert {word for word in arguments if "=" not in word} <= make_targets()
            case "python":
                assert arguments[:2] == ["-m", "pytest"]
            case "pytest":
                flags = {word for word in arguments if word.startswith("-")}
                assert flags <= {"--record-models"}
            case _:
                assert program in OF_OTHERS
        shipped = re.findall(r"(?<!\S)(?:config|docs|clients|tools|tests)/[\w./-]+", " ".join(arguments))
        assert [path for path in shipped if not (CHECKOUT / path).exists()] == []


@pytest.mark.parametrize("block", SCRIPTS, ids=str)
def test_every_variable_of_the_block_is_a_setting(block: Block) -> None:
    assert [name for name in re.findall(r"\bAGENTIC_\w+", block.text) if not is_setting(name)] == []


@pytest.mark.parametrize(("page", "command"), MENTIONED, ids=lambda part: part if isinstance(part, str) else part.stem)
def test_every_mentioned_command_is_there(page: object, command: str) -> None:
    program, name, *_ = command.split()
    if program == "make":
        assert name in make_targets() or "=" in name
    else:
        assert name.startswith("-") or name in subcommands()
        assert unknown_flags(command) == []


def test_wrong_commands_are_found() -> None:
    script = "agentic-backend serve --nope | tee a > b && AGENTIC_X=1 make nothing # a comment"
    assert list(commands(script)) == [["agentic-backend", "serve", "--nope"], ["tee", "a"], ["make", "nothing"]]
    with pytest.raises(SystemExit):
        parsed(["serve", "--nope"])
    assert unknown_flags("agentic-backend chat [AGENT] --nope --url URL") == ["--nope"]
    assert "nothing" not in make_targets() and not is_setting("AGENTIC_NOTHING")
