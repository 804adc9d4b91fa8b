"""What the settings of a scope add to the system prompt, in words. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from agentic_backend.policy.prompt.section import Section
from agentic_backend.policy.scopes.effective import LevelValue

_TOPICS = (
    "Talk only about these topics: {topics}. If the user asks for anything else, decline kindly and lead back to them."
)
_NO_DIRECT_ANSWERS = (
    "Never give the solution of a task or the direct answer to its question. Lead the user to it with hints and with "
    "questions of your own."
)

_TEXTS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "prompts.instructions": ("assignment", str),
    "prompts.topics": ("constraints", lambda topics: _TOPICS.format(topics=", ".join(topics)) if topics else ""),
    "prompts.no_direct_answers": ("constraints", lambda is_on: _NO_DIRECT_ANSWERS if is_on else ""),
    "prompts.rules": ("constraints", lambda rules: "\n".join(f"- {rule}" for rule in rules)),
    "prompts.guidance": ("guidance", str),
}
"""The section that each setting belongs to, and how its value is put into words; in the order of the prompt."""


def prompt_texts(applying: Mapping[str, LevelValue]) -> list[Section]:
    """The texts of the settings that apply, by dotted name."""
    texts = []
    for name, (section, worded) in _TEXTS.items():
        told = applying.get(name)
        text = worded(told.value) if told is not None and told.value is not None else ""
        if told is not None and text:
            texts.append(Section.of(section, text, f"{told.level}:{told.id}"))
    return texts
