"""The names of attachments: shown to people and models, and never a path. Pure."""

import re
import unicodedata

from agentic_backend.normal_form import normal_form

LONGEST_NAME = 200
"""Characters of a name."""

_UNNAMED = "file"
# Category C: controls, also those of the direction of text, that make `gpj.exe` look like `exe.jpg`; and what is no
# character at all. Zl and Zp break lines.
_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
_OF_PATHS = re.compile(r'[/\\:*?"<>|`]')


def clean_name(given: str) -> str:
    """`given` as the name of a file in one line: without a path, and without characters that nobody sees.

    What is replaced becomes `_`. The end, which tells the kind of file, stays if the name is cut.
    """
    name = re.split(r"[/\\]", given)[-1]
    name = "".join("_" if unicodedata.category(one) in _HIDDEN else one for one in normal_form("NFC", name))
    name = " ".join(_OF_PATHS.sub("_", name).split()).lstrip(".")
    if len(name) > LONGEST_NAME:
        stem, dot, ending = name.rpartition(".")
        ending = dot + ending if stem and len(ending) <= 16 else ""
        name = name[: LONGEST_NAME - len(ending) - 1] + "…" + ending
    return name or _UNNAMED
