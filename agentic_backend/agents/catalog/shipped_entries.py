"""The entries of the catalogs that applications ship, beside those of the operator's catalog."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentic_backend.agents.catalog.catalog import AgentsCatalog, CatalogEntry, KnownNames, read_catalog
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, dotted


def with_shipped(
    catalog: AgentsCatalog, files: Sequence[Path], known: KnownNames
) -> tuple[list[CatalogEntry], list[ConfigProblem]]:
    """The entries of `catalog`, then those of `files` whose ids it does not have, and the problems of all of these.

    A file that can't be read is a problem, and keeps no other away.
    """
    entries, problems = list(catalog.entries), list(catalog.problems)
    own = {entry.id for entry in catalog.entries if entry.id is not None}
    taken: dict[str, str] = {}
    for file in files:
        try:
            shipped = read_catalog(file, known)
        except ConfigError as error:
            problems += error.problems
            continue
        replaced = [entry for entry in shipped.entries if entry.id in own]
        problems += [problem for problem in shipped.problems if not _is_of(problem, replaced)]
        for entry in shipped.entries:
            if entry.id is None or entry.id in own:
                continue
            if entry.id in taken:
                problems.append(
                    entry.problem(("id",), f"the id {entry.id!r} is taken by an agent of {taken[entry.id]}")
                )
                continue
            entries.append(_without_default(entry))
            taken[entry.id] = str(file)
    return entries, problems


def _without_default(entry: CatalogEntry) -> CatalogEntry:
    """The entry, which is no default: which agent answers by default is the operator's to say."""
    if entry.settings is None or not entry.settings.default:
        return entry
    return replace(entry, settings=entry.settings.model_copy(update={"default": False}))


def _is_of(problem: ConfigProblem, entries: Sequence[CatalogEntry]) -> bool:
    return any(f"{problem.where}.".startswith(f"{dotted(entry.path)}.") for entry in entries)
