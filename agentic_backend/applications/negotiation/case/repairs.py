"""A patch that a model writes: asked for once, repaired once, and then refused in words."""

from collections.abc import Awaitable, Callable

from agentic_backend.applications.negotiation.case.patches import PatchRefused, parsed_patch, patched
from agentic_backend.applications.negotiation.case.snapshot import CaseSnapshot

Ask = Callable[[str], Awaitable[str]]
"""Puts a text to a model, within its budgets and time limits, and answers what it says."""

REPAIR = """{request}

You answered:
{answer}

That patch was refused: {reason}.
Write the whole patch again, as JSON alone."""
_LONGEST_QUOTED = 4_000


async def model_patched(snapshot: CaseSnapshot, request: str, ask: Ask) -> CaseSnapshot:
    """The snapshot with the patch that the model writes for this request, in its first or its second attempt.

    Raises PatchRefused, with the reason of the second, and what `ask` raises.
    """
    answer = await ask(request)
    try:
        return patched(snapshot, parsed_patch(answer))
    except PatchRefused as refused:
        reason = str(refused)
    repair = REPAIR.format(request=request, answer=answer[:_LONGEST_QUOTED], reason=reason)
    return patched(snapshot, parsed_patch(await ask(repair)))
