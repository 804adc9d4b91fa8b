"""CatalogSources: the entries of the YAML catalog and those of the database, and which of them count. Pure values."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Literal

from agentic_backend.agents.catalog.catalog import CatalogEntry
from agentic_backend.agents.catalog.named_parts import NOTHING, NamedParts
from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.config.yaml.located_yaml import ConfigProblem

Source = Literal["yaml", "database"]


@dataclass(frozen=True, slots=True)
class ImportedEntry:
    """An entry and what its class path names, which is None if the entry is bad, disabled, or can't be imported."""

    entry: CatalogEntry
    target: object | None = None
    is_enabled: bool = True
    problems: Sequence[ConfigProblem] = ()
    """Those that `CatalogSources.problems` does not have."""
    failure: ClassPathError | None = None
    parts: NamedParts = NOTHING


@dataclass(frozen=True)
class CatalogSources:
    """Of two entries with one id, the one of the source that `wins` counts, in whatever state it is."""

    yaml: Sequence[ImportedEntry] = ()
    problems: Sequence[ConfigProblem] = ()
    """Those of the YAML file that were found before its agents were imported."""
    database: Sequence[ImportedEntry] = ()
    wins: Source = "yaml"

    @cached_property
    def file_hash(self) -> int:
        """A number below 2**32 that is the same wherever the catalog's file, and the prompts in files, say the same."""
        entries = [each.entry for each in self.yaml]
        documents = {entry.document.file: entry.document.values for entry in entries}
        texts = [entry.settings.prompt.text for entry in entries if entry.settings and entry.settings.prompt]
        said = json.dumps([list(documents.values()), texts], sort_keys=True, default=str)
        return int.from_bytes(sha256(said.encode(errors="replace")).digest()[:4], "big")

    @property
    def all(self) -> Sequence[ImportedEntry]:
        return [*self.yaml, *self.database]

    @property
    def hidden(self) -> frozenset[str]:
        """The ids that both sources have."""
        ids = [{each.entry.id for each in source} for source in (self.yaml, self.database)]
        return frozenset(agent_id for agent_id in ids[0] & ids[1] if agent_id is not None)

    def shown(self) -> Sequence[ImportedEntry]:
        """The entries that count, those of the file first."""
        hidden = self.hidden
        losing = self.database if self.wins == "yaml" else self.yaml
        return [each for each in self.all if not (each.entry.id in hidden and any(each is one for one in losing))]
