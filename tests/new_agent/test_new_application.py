"""`new-application` in a folder: a module, a test that passes, and an entry by which a server serves it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pytest_process import run_pytest
from support.rest_client import plain_http
from support.running_server import running_server

from agentic_backend.cli import main
from agentic_backend.config.loading import load_settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, whose modules no other test finds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("club_rules", None)


def test_its_test_passes_and_so_does_ruff(folder: Path) -> None:
    assert main(["new-application", "club-rules"]) == 0
    assert "1 passed" in run_pytest(folder)
    ruff = str(Path(sys.executable).with_name("ruff"))
    for arguments in (["check", "--isolated", "--select", "E,F,I,B,UP"], ["format", "--check"]):
        done = subprocess.run([ruff, *arguments, "."], cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


async def test_a_server_serves_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "settings.yaml").write_text("# Ours.\nlog:\n  level: info\n")
    assert main(["new-application", "club-rules"]) == 0
    text = (folder / "config" / "settings.yaml").read_text()
    assert text.startswith("# Ours.\nlog:\n  level: info\n")
    monkeypatch.syspath_prepend(folder)
    [entry] = load_settings(folder / "config" / "settings.yaml", {}).applications
    async with running_server(folder, settings={"applications": [entry.model_dump()]}) as server, plain_http() as http:
        answer = await http.get(f"{server.address}/apps/club-rules/greetings/Ann")
    assert answer.json() == {"text": "Hello, Ann!"}


@pytest.mark.parametrize("name", ["House", "club_words", "class", "json", "a" * 33, "test-it"])
def test_other_names_are_refused_and_nothing_is_written(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new-application", name]) == 2
    assert "is no name for an application: " in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_nothing_is_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "club_rules.py").write_text("mine")
    assert main(["new-application", "club-rules"]) == 2
    assert [path.name for path in folder.iterdir()] == ["club_rules.py"]
