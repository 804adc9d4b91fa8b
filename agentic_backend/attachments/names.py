"""The names of attachments: shown to people and models, and never a path. Pure."""

import re

from agentic_backend.text.invisible_characters import is_invisible, is_space
from agentic_backend.text.normal_form import normal_form

LONGEST_NAME = 200
"""Characters of a name."""

_UNNAMED = "file"
_OF_PATHS = re.compile(r'[/\\:*?"<>|`]')


def clean_name(given: str) -> str:
    """`given` as the name of a file in one line: without a path, and without characters that nobody sees.

    A space of any width becomes U+0020, whatever else is replaced `_`: a control of direction makes `gpj.exe` look like
    `exe.jpg`. The end, which tells the kind of file, stays if the name is cut.
    """
    name = re.split(r"[/\\]", given)[-1]
    name = "".join(_seen(one) for one in normal_form("NFC", name))
    name = " ".join(_OF_PATHS.sub("_", name).split()).lstrip(".")
    if len(name) > LONGEST_NAME:
        stem, dot, ending = name.rpartition(".")
        ending = dot + ending if stem and len(ending) <= 16 else ""
        name = name[: LONGEST_NAME - len(ending) - 1] + "…" + ending
    return name or _UNNAMED


def _seen(character: str) -> str:
    if is_space(character):
        return " "
    return "_" if is_invisible(character) else character
