"""axe-core, which finds what of a page people with disabilities can't use, from npm."""

from pathlib import Path
from typing import Any

from playwright.async_api import Frame, Page
from services.npm import installed

_SOURCE = Path(__file__).parent / "axe"
# What fades in has another contrast until it is there. What moves for ever, such as a spinner, is judged as it is.
_RUN = """async () => {
  const passing = document.getAnimations().filter(({ effect }) => effect.getComputedTiming().endTime !== Infinity);
  await Promise.allSettled(passing.map(({ finished }) => finished));
  const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  // It is WCAG 2.5.3, and tried out for years: without being named it is left out.
  const more = { "label-content-name-mismatch": { enabled: true } };
  const { violations } = await axe.run({ runOnly: { type: "tag", values: rules }, rules: more });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => ({ id, html, failureSummary })));
}"""


def axe_program() -> Path:
    """The script. Skips or fails the test if it is missing (see `require`)."""
    return installed("axe-core", _SOURCE) / "node_modules" / "axe-core" / "axe.min.js"


async def violations(tab: Page | Frame) -> list[dict[str, Any]]:
    """What breaks a rule of WCAG 2.2 A or AA on the page or in the frame, as it is now.

    Each has the `id` of the rule, `html` and `failureSummary`.
    """
    await tab.evaluate(axe_program().read_text())
    found: list[dict[str, Any]] = await tab.evaluate(_RUN)
    return found
