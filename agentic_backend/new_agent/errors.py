"""CannotWrite: why a new agent is not written."""


class CannotWrite(Exception):
    """Nothing was written; the text says why."""
