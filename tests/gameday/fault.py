"""Fault: something that goes wrong around a real server, and what leads an operator to its cause.

The tests, `make gameday` and docs/gameday.md are made from the same faults, see `faults`.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from gameday.ranges import sooner
from gameday.site import Site

CHECKOUT = Path(__file__).parents[2]
ALERTS_FILE = CHECKOUT / "config" / "prometheus" / "rules" / "alerts.yaml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS_FILE.read_text())["groups"] for rule in group["rules"]}


@dataclass(frozen=True)
class Fault:
    name: str
    site: str
    """The key in `sites.SITES` of the server that it happens to."""
    inject: Callable[[Site], AbstractAsyncContextManager[None]]
    """The fault lasts as long as the context."""
    alert: str
    panel: tuple[str, str]
    """The file of the dashboard and the panel's title."""
    runbook: str
    """Words of the alert's runbook that lead on from there."""
    log: str
    """The event that names the cause, as in docs/logs.md."""
    felt: str
    """What users feel, for people."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Patterns of the event's fields."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the alert."""
    ask: tuple[str, str | None] = ("hello", None)
    """What people ask meanwhile, and which agent; None is the default one."""
    outcome: str = "ok"
    """A pattern of what some of them get: the status of a final, or the code of an error or a refusal, or `nothing`."""
    ready: str = "ok"
    """The status of readiness while it lasts."""
    sooner: Mapping[str, str] = field(default_factory=dict)
    """Parts of the alert's expression with what takes their place in a test, beside its ranges."""

    ends_soon_in_full: bool = True
    """Whether the expression as shipped is waited for to be false again, which takes those over hours too long."""

    @property
    def runbook_file(self) -> Path:
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", self.alert).lower()
        return CHECKOUT / "docs" / "runbooks" / f"{name}.md"

    @property
    def holds_for(self) -> str:
        """How long the expression has to be true before the alert fires."""
        return str(RULES[self.alert]["for"])

    def expression(self, *, in_full: bool) -> str:
        """The alert's; its ranges are those of seconds, not of minutes, unless `in_full`."""
        expression = str(RULES[self.alert]["expr"])
        if in_full:
            return expression
        for part, other in self.sooner.items():
            assert part in expression
            expression = expression.replace(part, other)
        return sooner(expression)
