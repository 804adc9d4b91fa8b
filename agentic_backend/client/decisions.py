"""What a person decides on the requests of an `awaiting_human`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from agentic_backend.exact_json import INEXACT, all_exact
from agentic_backend.protocol.events import HumanRequest
from agentic_backend.protocol.frames import Decision, HumanDecisions


@dataclass(frozen=True)
class Answer:
    """The answer to a question: any JSON value, of the request's `response_schema` if it has one."""

    interrupt_id: str
    value: Any


def approve(request: HumanRequest) -> Decision:
    """Let the tool run with the arguments that were shown. Raises ValueError if the request is a question."""
    return _decision(request, "approve")


def reject(request: HumanRequest, message: str | None = None) -> Decision:
    """Don't let the tool run; `message` tells the agent why. Raises ValueError if the request is a question."""
    return _decision(request, "reject", message=message)


def edit(request: HumanRequest, args: dict[str, Any]) -> Decision:
    """Let the tool run with other arguments.

    Raises ValueError if the request is a question, or if JSON has no form of a number or a text in `args`: NaN, an
    infinity, an integer beyond 64 bits, half a character.
    """
    _require_exact(args)
    return _decision(request, "edit", args=args)


def answer(request: HumanRequest, value: Any) -> Answer:
    """Answer a question. Raises ValueError if JSON has no form of a number or a text in `value`, as `edit` does."""
    _require_exact(value)
    return Answer(request.interrupt_id, value)


def decided(decisions: Iterable[Decision | Answer]) -> HumanDecisions:
    made = list(decisions)
    return HumanDecisions(
        decisions=[each for each in made if isinstance(each, Decision)],
        answers={each.interrupt_id: each.value for each in made if isinstance(each, Answer)},
    )


def _require_exact(value: Any) -> None:
    if not all_exact(value):
        raise ValueError(f"{INEXACT} can't be sent as it is")


def _decision(request: HumanRequest, action: Literal["approve", "reject", "edit"], **fields: Any) -> Decision:
    if request.call_id is None or request.args_sha256 is None:
        raise ValueError("This request is a question: answer it.")
    return Decision(call_id=request.call_id, args_sha256=request.args_sha256, action=action, **fields)
