"""Which expert the offline model asks for what its own tools can't do. Pure.

A model would read the descriptions of its tools; this one compares their words with the name of the tool that it lacks.
"""

import re
from collections.abc import Iterable, Mapping

from agentic_backend.agents.delegation_tool_name import ASK
from agentic_backend.agents.offline_calls import CallRequest


def delegated(requests: Iterable[CallRequest], tools: Mapping[str, str]) -> list[CallRequest]:
    """`requests`, each for a missing tool replaced by a question to the expert who seems to have it.

    `tools`: the descriptions of the tools by their names. What no expert speaks of stays as it is.
    """
    experts = {name: _words(description) for name, description in tools.items() if name.startswith(ASK)}
    asked: list[CallRequest] = []
    for request in requests:
        expert = None if request.name in tools else _expert_for(request.name, experts)
        if expert is not None:
            request = CallRequest(expert, {"question": request.said}, request.said)
        # Several calls that one clause asks for are one question.
        if expert is None or request not in asked:
            asked.append(request)
    return asked


def _expert_for(tool: str, experts: Mapping[str, frozenset[str]]) -> str | None:
    """The expert whose description has most words of the tool's name; the first of several."""
    shared = {name: len(_words(tool) & words) for name, words in experts.items()}
    best = max(shared, key=lambda name: shared[name], default=None)
    return best if best is not None and shared[best] else None


def _words(text: str) -> frozenset[str]:
    """The words of `text` in lower case, plurals as singulars."""
    return frozenset(word.removesuffix("s") for word in re.findall(r"[a-z]+", text.lower()))
