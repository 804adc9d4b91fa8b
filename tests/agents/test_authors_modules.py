"""Authors' modules: which of the imported ones are theirs."""

import gc
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from agentic_backend.agents.code.authors_modules import AuthorsModules


class Lazy(ModuleType):
    """A module that imports what it is asked for, which is not installed."""

    def __getattr__(self, name: str) -> object:
        raise ImportError(name)


def test_a_module_that_can_not_be_asked_keeps_no_others_from_being_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lazy_of_the_tests", Lazy("lazy_of_the_tests"))
    modules = AuthorsModules()
    modules.noted()
    assert __file__ in {str(file) for file in modules.files}
    modules.put_aside().put_back()
    assert isinstance(sys.modules["lazy_of_the_tests"], Lazy)


def test_modules_that_are_imported_while_the_garbage_collector_runs_keep_none_from_being_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thresholds = gc.get_threshold()

    def import_another(phase: str, info: dict[str, int]) -> None:
        name = f"another_of_the_tests_{len(sys.modules)}"
        monkeypatch.setitem(sys.modules, name, ModuleType(name))

    modules = AuthorsModules()
    gc.callbacks.append(import_another)
    gc.set_threshold(50)
    try:
        modules.noted()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(import_another)
    assert __file__ in {str(file) for file in modules.files}


def test_of_two_saves_in_one_second_the_second_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(tmp_path)
    name, file = "saved_twice_in_the_tests", tmp_path / "saved_twice_in_the_tests.py"

    def saved(text: str, time_ns: int) -> None:
        file.write_text(f"TEXT = {text!r}\n")
        os.utime(file, ns=(time_ns, time_ns))

    saved("one", 10**18)
    importlib.import_module(name)
    assert list((tmp_path / "__pycache__").iterdir())
    modules = AuthorsModules()
    modules.noted()
    saved("two", 10**18 + 1)
    modules.put_aside().forget()
    assert importlib.import_module(name).TEXT == "two"
    monkeypatch.delitem(sys.modules, name)
