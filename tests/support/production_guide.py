"""The examples of docs/production.md, which tests run."""

import re
from pathlib import Path

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.transports.rest.upload import BESIDE_FILE

_GUIDE = (Path(__file__).parents[2] / "docs" / "production.md").read_text()


def fenced(language: str, containing: str) -> str:
    """The guide's one example in this language that has this text."""
    examples: list[str] = re.findall(rf"^```{language}\n(.*?)^```", _GUIDE, flags=re.MULTILINE | re.DOTALL)
    [example] = [example for example in examples if containing in example]
    return example


def largest_body(limits: LimitsSettings) -> int:
    """The bytes of the largest body that a server with these limits reads."""
    return max(limits.frame_bytes, limits.attachment_bytes + BESIDE_FILE)
