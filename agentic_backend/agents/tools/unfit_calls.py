"""Tool calls that can't run, because they were cut off or their arguments are no JSON object: how they are marked."""

import json
from collections.abc import Mapping

INVALID = "_invalid"
"""The one argument of such a call: what the model wrote as its arguments, as far as it came."""

NOT_RUN = (
    "The call did not run: it was cut off, or its arguments are not a JSON object. Make it again, complete; if it was "
    "cut off, make it shorter."
)
"""The result that tells the model."""


def is_object(text: str) -> bool:
    """Whether `text`, which a model has written as the arguments of a call, is a whole JSON object."""
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def is_unfit(args: object) -> bool:
    """Whether these are the arguments of such a call."""
    return isinstance(args, Mapping) and args.keys() == {INVALID}
