"""AgentName: the name of a new agent or application, and what follows: its id, module and class, what people see."""

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass

import yaml

from agentic_backend.new_agent.errors import CannotWrite

_PATTERN = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class AgentName:
    """Made by `named`."""

    id: str

    @property
    def module(self) -> str:
        return self.id.replace("-", "_")

    @property
    def class_name(self) -> str:
        return "".join(word.capitalize() for word in self.module.split("_"))

    @property
    def title(self) -> str:
        return self.module.replace("_", " ").capitalize()

    def put_into(self, template: str) -> str:
        """The text of a template with this name in place of the template's own."""
        names = {
            "new-agent": self.id,
            "new_agent": self.module,
            "NewAgent": self.class_name,
            "New agent": self.title,
            "PYTHON": yaml.safe_dump(sys.executable, width=10_000).splitlines()[0],
        }
        return re.sub("|".join(names), lambda found: names[found[0]], template)


def named(text: str, what: str = "an agent") -> AgentName:
    """The name of a new agent, or of `what` it is.

    Raises CannotWrite if it can't be the name of a module too, or YAML reads it otherwise.
    """
    if not _PATTERN.fullmatch(text) or len(text) > _LONGEST:
        raise CannotWrite(
            f"{text!r} is no name for {what}: expected at most {_LONGEST} small letters and digits that begin with a "
            "letter, with '-' or '_' between words, such as 'help-desk'"
        )
    name = AgentName(text)
    if keyword.iskeyword(name.module) or not isinstance(yaml.safe_load(text), str):
        raise CannotWrite(f"{text!r} is no name for {what}: it is a word of Python or of YAML")
    if name.module == "conftest" or name.module.startswith("test_") or name.module.endswith("_test"):
        raise CannotWrite(f"{text!r} is no name for {what}: pytest would take its module for tests")
    if importlib.util.find_spec(name.module) is not None:
        raise CannotWrite(f"{text!r} is no name for {what}: there is a Python module {name.module!r} already")
    return name
