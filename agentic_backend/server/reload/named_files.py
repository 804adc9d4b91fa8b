"""The files and folders that a catalog names in its entries, also in those that can't be served.

They need not be there: what a refused reload lacks may come with the next save.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentic_backend.agents.catalog.entry_parts import is_code_name
from agentic_backend.agents.catalog.entry_references import colon_form
from agentic_backend.config.yaml.located_yaml import read_yaml


@dataclass(frozen=True, slots=True)
class NamedFiles:
    prompts: frozenset[Path] = frozenset()
    """The files of prompts."""
    folders: frozenset[Path] = frozenset()
    """Where the modules of class paths, tools and middleware are, if they are beside the catalog."""

    @classmethod
    def of(cls, catalog: Path) -> "NamedFiles":
        """Those that the file `catalog` names. Raises ConfigError if it is no YAML."""
        entries = read_yaml(catalog).values.get("agents")
        prompts, folders = set(), set()
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict):
                continue
            prompt = entry.get("prompt")
            if isinstance(prompt, dict) and isinstance(prompt.get("file"), str):
                prompts.add(catalog.parent / prompt["file"])
            for module in _modules(entry):
                names = module.split(".")
                if all(name.isidentifier() for name in names):
                    # A package, or a module in one.
                    folders |= {catalog.parent.joinpath(*names), catalog.parent.joinpath(*names[:-1])}
        return cls(frozenset(prompts), frozenset(folders))


def _modules(entry: dict[Any, Any]) -> Iterator[str]:
    class_path = entry.get("class_path")
    if isinstance(class_path, str):
        yield colon_form(class_path).partition(":")[0]
    for text in _texts([entry.get("tools"), entry.get("middleware")]):
        if is_code_name(text):
            yield text.partition(":")[0]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        yield from _texts(list(value.values()))
