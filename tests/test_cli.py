"""The command line, as far as it comes without starting a server: what it says of a wrong configuration."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.log_lines import logging_as_before, problems

from agentic_backend.cli import main

CATALOG = """
agents:
  - id: assistant
    class_path: agentic_backend.experts.assistant.assistant:Assistant
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    with logging_as_before():
        yield tmp_path


@pytest.mark.parametrize("command", ["serve", "validate"])
@pytest.mark.parametrize(
    ("text", "flags", "told"),
    [
        ("server: {port: eighty}", ["--config", "file.yaml"], ["file.yaml:1", "server.port", "'eighty'"]),
        ("server: [", ["--config", "file.yaml"], ["file.yaml:"]),
        ("", ["--config", "absent.yaml"], ["absent.yaml", "no such file"]),
        ("", ["--port", "70000"], ["--port", "65535", "70000"]),
        ("", ["--port", "eighty"], ["--port", "an integer", "'eighty'"]),
        ("", ["--port", "65000"], ["--port", "internal_port"]),
        ("", ["--host", "0.0.0.0"], ["--host", "loopback", "--allow-remote-developer"]),
        ("", ["--log-level", "loud"], ["--log-level", "'debug'"]),
        ("", ["--store", "mongo://ann:s3cret@host"], ["--store: must begin with sqlite: or mongodb:// or"]),
        (
            "store: {url: 'mongo://ann:s3cret@host'}",
            ["--config", "file.yaml"],
            ["file.yaml:1", "store.url: must begin"],
        ),
        ("agents: []", ["--catalog", "file.yaml"], ["file.yaml", "no agent can be served"]),
        ("agents: 7", ["--catalog", "file.yaml"], ["file.yaml", "a list of agents"]),
        ("", ["--catalog", "absent.yaml"], ["absent.yaml", "no such file"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    command: str, text: str, flags: list[str], told: list[str], directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (directory / "file.yaml").write_text(text)
    assert main([command, *flags]) == 2
    output = capfd.readouterr()
    assert output.out == ""
    wrong = "\n".join(problems(output.err))
    assert all(words in wrong for words in told), output.err
    assert "s3cret" not in output.err
    assert not (directory / "data").exists()


def test_a_model_that_cannot_be_built_keeps_the_server_from_starting(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (directory / "file.yaml").write_text("models: {default: {model: 'groq:llama'}}")
    assert main(["serve", "--config", "file.yaml"]) == 2
    [problem] = problems(capfd.readouterr().err)
    assert problem.startswith("models.default: the model 'groq:llama' can't be built: ")


def test_a_valid_configuration_is_valid(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "agents_catalog.yaml").write_text(CATALOG)
    assert main(["validate"]) == 0
    output = capfd.readouterr()
    assert output.err == ""
    assert output.out.splitlines()[0] == "1 agent can be served, 0 problems"


def test_agents_stand_in_the_working_directory(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "agents_of_this_test.py").write_text("async def build(model): ...")
    entry = (
        "  - {id: mine, class_path: 'agents_of_this_test:build'}\n  - {id: bad, class_path: 'agents_of_this_test:x'}"
    )
    (directory / "agents_catalog.yaml").write_text(CATALOG + entry)
    assert main(["validate"]) == 2
    output = capfd.readouterr()
    assert output.out.splitlines()[0] == "2 agents can be served, 1 problem"
    [problem] = problems(output.err)
    assert problem.startswith("agents_catalog.yaml:6:")


@pytest.mark.parametrize("command", [["validate"], ["serve", "--port", "0"]])
def test_every_finding_is_told_however_many_there_are(
    directory: Path, capfd: pytest.CaptureFixture[str], command: list[str]
) -> None:
    entries = [f"  - {{id: a{number}, colour: red}}\n" for number in range(200)]
    (directory / "agents_catalog.yaml").write_text("agents:\n" + "".join(entries))
    assert main(command) == 2
    error = capfd.readouterr().err
    assert {int(problem.split(":")[1]) for problem in problems(error)} >= set(range(2, 202))


def test_agents_stand_beside_the_catalog_and_the_working_directory_goes_first(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    for folder, module in ((elsewhere, "beside_the_catalog"), (elsewhere, "in_both"), (directory, "in_both")):
        name = "build" if folder == directory or module == "beside_the_catalog" else "other"
        (folder / f"{module}.py").write_text(f"async def {name}(model): ...")
    entries = [f"  - {{id: {module}, class_path: '{module}:build'}}\n" for module in ("beside_the_catalog", "in_both")]
    (elsewhere / "catalog.yaml").write_text("agents:\n" + "".join(entries))
    status = main(["validate", "--catalog", "elsewhere/catalog.yaml"])
    output = capfd.readouterr()
    assert (status, output.err) == (0, "")
    assert output.out.splitlines()[0] == "2 agents can be served, 0 problems"


@pytest.mark.parametrize(("arguments", "status"), [([], 2), (["serve", "--prot", "1"], 2), (["-h"], 0)])
def test_unknown_arguments_are_told(arguments: list[str], status: int, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == status
    output = capfd.readouterr()
    assert "usage: agentic-backend" in output.out + output.err


def test_a_command_that_nobody_has_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["start"]) == 2
    assert capfd.readouterr().err.startswith(
        "There is no command 'start'; the settings name no application that has any"
    )


@pytest.mark.parametrize("command", ["serve", "validate"])
def test_a_problem_of_the_policies_is_told_with_its_place(
    directory: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    (directory / "agents_catalog.yaml").write_text(CATALOG)
    (directory / "config").mkdir(exist_ok=True)
    (directory / "config" / "policies.yaml").write_text(
        "tasks:\n  essay:\n    model: defautl\n    modules: {word: true}\n"
    )
    (directory / "config" / "modules.yaml").write_text(
        "modules:\n  - {name: words, class_path: 'agentic_backend.modules.language:LanguageNote'}\n"
    )
    assert main([command]) == 2
    assert problems(capfd.readouterr().err) == [
        "config/policies.yaml:3:12: tasks.essay.model: there is no model 'defautl'; did you mean 'default'?",
        "config/policies.yaml:4:21: tasks.essay.modules.word: there is no module 'word'; did you mean 'words'?",
    ]


@pytest.mark.parametrize("command", ["serve", "validate"])
def test_a_problem_of_the_chat_profiles_is_told_with_its_place(
    directory: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    (directory / "agents_catalog.yaml").write_text(CATALOG)
    (directory / "config").mkdir()
    (directory / "config" / "chat_profiles.yaml").write_text("profiles:\n  brief: {max_history_turns: none}\n")
    assert main([command]) == 2
    assert problems(capfd.readouterr().err) == [
        "config/chat_profiles.yaml:2:30: profiles.brief.max_history_turns: "
        "expected an integer from 1 to 10000 or null, found 'none'"
    ]


def test_an_agent_may_name_a_chat_profile_of_the_file(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "config").mkdir()
    (directory / "config" / "chat_profiles.yaml").write_text("profiles: {brief: {max_history_turns: 3}}\n")
    (directory / "agents_catalog.yaml").write_text(CATALOG + "    chat: {profile: brief}\n")
    assert main(["validate"]) == 0
    (directory / "agents_catalog.yaml").write_text(CATALOG + "    chat: {profile: breif}\n")
    assert main(["validate"]) == 2
    assert "agents_catalog.yaml:5:21: agents[0].chat.profile: there is no chat profile 'breif'; did you mean" in (
        "\n".join(problems(capfd.readouterr().err))
    )


@pytest.mark.parametrize(("command", "names"), [("migrate", "SQLite file to a MongoDB"), ("schema", "JSON Schema")])
def test_help_keeps_the_capitals_of_names(command: str, names: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert names in " ".join(capfd.readouterr().out.split())


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("agentic_backend.cli", "langchain_core langgraph pydantic starlette"),
        (
            "agentic_backend.command_line.commands",
            "mcp numpy pymongo agentic_backend.evals.command agentic_backend.command_line.neighbours",
        ),
    ],
)
def test_what_a_start_does_not_need_is_not_imported(module: str, unused: str) -> None:
    code = f"import sys, {module}; print(*set({unused.split()}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == ""
