"""Authors' modules: which of the imported ones are theirs."""

import sys
from types import ModuleType

import pytest

from agentic_backend.agents.authors_modules import AuthorsModules


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
