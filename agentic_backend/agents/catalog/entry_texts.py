"""The YAML texts of single entries: taken out of a catalog, put into one, enabled and disabled. Comments are kept.

PyYAML gives places and no comments, so texts are moved as they are. Where that would change what is read, as with an
anchor in another entry, the values are written anew. All texts have been read by `located_yaml`, within its bounds.
"""

from collections.abc import Iterable
from textwrap import indent
from typing import Any

import yaml

from agentic_backend.config.yaml.yaml_bounds import Loader

FIRST_LINE = "# yaml-language-server: $schema=agents_catalog.schema.json\n"


class _Loader(Loader):  # type: ignore[misc]
    """Reads a plain `=` as a text, as catalogs are read; YAML 1.1 has a type of its own for it."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)


def yaml_of(values: Any) -> str:
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)
    return text


def with_enabled(text: str, is_enabled: bool) -> str:
    """The text of an entry with the key `enabled`, if it has that key, set to `is_enabled`."""
    word = "true" if is_enabled else "false"
    values = _read(text)
    if not isinstance(values, dict) or "enabled" not in values:
        return text
    wanted = values | {"enabled": is_enabled}
    top = yaml.compose(text, Loader)
    assert isinstance(top, yaml.MappingNode), "it has been read as a mapping"
    for key, value in top.value:
        if key.value == "enabled":
            changed = text[: value.start_mark.index] + word + text[value.end_mark.index :]
            # An alias has the place of its anchor.
            return changed if _read(changed) == wanted else yaml_of(wanted)
    # It comes from another mapping, by a merge.
    return yaml_of(wanted)


def catalog_of(entries: Iterable[tuple[str, bool]]) -> str:
    """A catalog file with these entries: each a text, and whether it is enabled. Without what can't be read."""
    items = [item for entry in entries if (item := _item(*entry)) is not None]
    return FIRST_LINE + ("\n".join(["agents:", *items]) if items else "agents: []") + "\n"


def _item(text: str, is_enabled: bool) -> str | None:
    read = _read(text)
    if not isinstance(read, dict):
        return None
    values = read | ({} if is_enabled else {"enabled": False})
    kept = with_enabled(text, is_enabled).strip("\n")
    if not is_enabled and "enabled" not in read:
        kept += "\nenabled: false"
    item = f"  -\n{indent(kept, '    ')}"
    return item if _read(item) == [values] else f"  -\n{indent(yaml_of(values).rstrip(), '    ')}"


def _read(text: str) -> Any:
    try:
        return yaml.load(f"{text}\n", _Loader)
    # PyYAML doesn't catch the errors of its conversions, as of a date that is none.
    except (yaml.YAMLError, ValueError):
        return None


def texts_in(catalog: str) -> list[str]:
    """The text of each entry of a catalog whose `agents` is a list."""
    top = yaml.compose(catalog, Loader)
    assert isinstance(top, yaml.MappingNode), "it has been read as a catalog"
    nodes = next(value for key, value in top.value if key.value == "agents").value
    values = _read(catalog)["agents"]
    return [_cut(catalog, node, value) for node, value in zip(nodes, values, strict=True)]


def _cut(catalog: str, node: yaml.Node, value: Any) -> str:
    margin = " " * node.start_mark.column
    first, *more = catalog[node.start_mark.index : node.end_mark.index].rstrip().split("\n")
    text = "\n".join([first, *(line.removeprefix(margin) for line in more)]) + "\n"
    return text if _read(text) == value else yaml_of(value)
