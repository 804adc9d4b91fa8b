"""What a test answers in a person's place: decisions on calls of tools, and answers to questions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentic_backend.protocol.events import HumanRequest
from agentic_backend.protocol.frames import Decision, HumanDecisions


@dataclass(frozen=True)
class Approve:
    """Let the tool run with the arguments that are shown."""


@dataclass(frozen=True)
class Reject:
    """Don't let the tool run; `message` tells the agent why."""

    message: str | None = None


@dataclass(frozen=True)
class Edit:
    """Let the tool run with these arguments instead."""

    args: dict[str, Any]


Answers = Callable[[HumanRequest], Any] | Sequence[Any] | Approve | Reject | None
"""What is answered: by a function of the request; in order, by a list; or the same for every call of a tool.

A request of a call is answered by Approve, Reject or Edit; a question by any JSON value.
"""


class Unanswered(AssertionError):
    """The agent asks a person, and the test has no answer."""


class Answering:
    """Answers the requests of one run. A list of answers is used up in the order of the requests."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._left: Iterator[Any] = iter(answers if isinstance(answers, Sequence) else ())
        self.requests: list[HumanRequest] = []
        """Every request so far."""

    def decide(self, requests: Sequence[HumanRequest]) -> HumanDecisions:
        """The decisions on all of `requests`. Raises Unanswered."""
        self.requests += requests
        answered = [(request, self._answer(request)) for request in requests]
        return HumanDecisions(
            decisions=[_decision(request, answer) for request, answer in answered if request.call_id is not None],
            answers={request.interrupt_id: answer for request, answer in answered if request.call_id is None},
        )

    def _answer(self, request: HumanRequest) -> Any:
        answers = self._answers
        if callable(answers):
            return answers(request)
        if isinstance(answers, Approve | Reject) and request.call_id is not None:
            return answers
        try:
            return next(self._left)
        except StopIteration:
            raise Unanswered(f"The agent asks for {_asked(request)}, and the test has no answer.") from None


def _asked(request: HumanRequest) -> str:
    if request.call_id is not None:
        return f"approval of the call {request.name}({request.args})"
    return f"an answer to {request.question or request.value!r}"


def _decision(request: HumanRequest, answer: Any) -> Decision:
    match answer:
        case Approve():
            return _decided(request, "approve")
        case Reject(message=message):
            return _decided(request, "reject", message=message)
        case Edit(args=args):
            return _decided(request, "edit", args=args)
    raise Unanswered(f"The answer to {_asked(request)} must be Approve, Reject or Edit, not {answer!r}.")


def _decided(request: HumanRequest, action: Literal["approve", "reject", "edit"], **given: Any) -> Decision:
    assert request.call_id is not None and request.args_sha256 is not None, "a call that waits has both"
    return Decision(call_id=request.call_id, args_sha256=request.args_sha256, action=action, **given)
