from collections.abc import Callable
from pathlib import Path

import pytest

from agentic_backend.agents.code.class_path import ClassPathError, resolve
from agentic_backend.protocol.parts import TextPart

Package = Callable[[str, dict[str, str]], None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Makes importable packages; each test takes a name of its own, since imported modules stay."""

    def make(name: str, modules: dict[str, str]) -> None:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").touch()
        for module, code in modules.items():
            (folder / f"{module}.py").write_text(code)

    monkeypatch.syspath_prepend(tmp_path)
    return make


def test_an_import_error_leaves_out_the_secrets_of_the_environment(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TOKEN", "quokkaberry")
    package("desk_with_secret", {"one": "import os; raise ValueError('refused ' + os.environ['DESK_TOKEN'])"})
    assert refusal("desk_with_secret.one:graph").endswith("ValueError: refused [redacted]")


def refusal(class_path: str) -> str:
    with pytest.raises(ClassPathError) as caught:
        resolve(class_path)
    return str(caught.value)


@pytest.mark.parametrize("separator", [":", "."])
def test_both_spellings_lead_to_the_object(separator: str) -> None:
    assert resolve(f"agentic_backend.protocol.parts{separator}TextPart") is TextPart


@pytest.mark.parametrize("separator", [":", "."])
def test_an_unknown_name_has_a_near_miss(separator: str) -> None:
    text = refusal(f"agentic_backend.protocol.parts{separator}TxtPart")
    assert text == "module 'agentic_backend.protocol.parts' has no 'TxtPart'; did you mean 'TextPart'?"
    assert refusal(f"agentic_backend.protocol.parts{separator}Zzz").endswith("has no 'Zzz'")


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("agentic_backend.expers.one", "'agentic_backend.expers'; did you mean 'agentic_backend.experts'?"),
        (
            "agentic_backend.protocol.prats",
            "'agentic_backend.protocol.prats'; did you mean 'agentic_backend.protocol.parts'?",
        ),
        ("agentic_backand.protocol", "'agentic_backand'; did you mean 'agentic_backend'?"),
        ("agentic_backend.errors.inner", "'agentic_backend.errors.inner'"),
        ("zzzzzzzz", "'zzzzzzzz'"),
    ],
)
def test_an_unknown_module_has_a_near_miss(module: str, text: str) -> None:
    assert refusal(f"{module}:Name") == f"no module named {text}"


def test_a_module_that_raises_is_told_with_its_exception_and_line(package: Package, tmp_path: Path) -> None:
    package("raising", {"agent": "import json\n\njson.loads('{')\n", "exits": "raise SystemExit(3)\n"})
    text = refusal("raising.agent:Agent")
    assert text.startswith("importing 'raising.agent' failed at ")
    assert "JSONDecodeError: Expecting property name" in text
    assert refusal("raising.exits:Agent") == (
        f"importing 'raising.exits' failed at {tmp_path / 'raising' / 'exits.py'}:1: SystemExit: 3"
    )


def test_a_syntax_error_is_told_with_its_line(package: Package, tmp_path: Path) -> None:
    package("unparsable", {"agent": "x = 1\ndef :\n"})
    text = refusal("unparsable.agent:Agent")
    path = tmp_path / "unparsable" / "agent.py"
    assert text.startswith(f"importing 'unparsable.agent' failed at {path}:2: SyntaxError:")


def test_the_line_is_the_authors_though_a_library_raised(package: Package, tmp_path: Path) -> None:
    package("asking_much", {"agent": "from asking_much import inner\n", "inner": "import json\njson.loads('{')\n"})
    assert f" at {tmp_path / 'asking_much' / 'inner.py'}:2: JSONDecodeError" in refusal("asking_much.agent:Agent")


def test_an_author_may_raise_what_is_no_exception(package: Package) -> None:
    package("exiting", {"agent": "raise GeneratorExit\n"})
    assert "agent.py:1: GeneratorExit" in refusal("exiting.agent:Agent")


def test_what_a_module_misses_is_not_taken_for_the_module(package: Package, tmp_path: Path) -> None:
    package("needy", {"agent": "import not_installed_anywhere\n"})
    assert refusal("needy.agent:Agent") == (
        f"importing 'needy.agent' failed at {tmp_path / 'needy' / 'agent.py'}:1: "
        "ModuleNotFoundError: No module named 'not_installed_anywhere'"
    )


def test_long_reasons_are_cut(package: Package) -> None:
    package("talkative", {"agent": "raise ValueError('x' * 10_000)\n"})
    assert len(refusal("talkative.agent:Agent")) < 1000
