"""What a tool may be called."""

import re

# What every provider takes as the name of a tool.
_LONGEST = 64
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(name: str) -> str:
    """`name` as every provider takes it: at most 64 letters, digits, `_` and `-`."""
    return _NO_NAME.sub("_", name)[:_LONGEST]
