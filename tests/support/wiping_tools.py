"""Tools of an agent that reads documents: a harmless one, and one that no document is to bring about."""

from langchain_core.tools import tool

called: list[str] = []
"""The names of the tools that ran."""


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    called.append("look_up")
    return f"{word}: a wet place"


@tool
def wipe() -> str:
    """Remove everything."""
    called.append("wipe")
    return "All is gone."
