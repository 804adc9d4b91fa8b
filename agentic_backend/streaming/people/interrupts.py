"""Converts LangGraph interrupts to requests to a person, and decisions to the values that resume the graph. Pure.

An interrupt has one of several forms: calls of LangChain's approval middleware, actions of its Agent Inbox, a
breakpoint of the graph or, with any other value, a question. Each of its requests has its whole value.
"""

import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType
from typing import Any, Protocol

from langgraph.types import Interrupt
from langgraph.types import interrupt as asking_function
from pydantic import PydanticUserError

from agentic_backend.agents.run.paused_graph import is_breakpoint
from agentic_backend.disclosure.exception_detail import PlacedError
from agentic_backend.errors import AgentUnavailable, ApprovalMismatch
from agentic_backend.inlined_schema import UnusableSchema
from agentic_backend.protocol.events import HumanRequest, HumanRequests
from agentic_backend.stores.records import HumanDecision
from agentic_backend.streaming.content.json_form import cut, value_form
from agentic_backend.streaming.people.agent_inbox import AgentInbox, actions_of
from agentic_backend.streaming.people.approval_requests import CallApproval, CallBatch, calls_of, is_call, place
from agentic_backend.streaming.people.questions import BreakpointQuestion, Question
from agentic_backend.system_errors import traceback_of

LONGEST_VALUE = 64 * 1024
"""The most bytes of JSON that a request's `value` has."""
# The same for all requests of one pause together, which are one event and one row.
_LONGEST_VALUES = 1024 * 1024


class Form(Protocol):
    """What an interrupt asks for."""

    @property
    def requests(self) -> list[HumanRequest]:
        """The requests, without the interrupt's value; a call's `call_id` is its own id or its place."""

    def resume(self, decisions: Sequence[HumanDecision]) -> Any:
        """The value that resumes the interrupt; `decisions` has one for each request, in order."""


def human_requests(interrupts: Iterable[Interrupt]) -> HumanRequests | None:
    """All requests of a paused graph, each call with a unique id; None if there are none.

    Raises LimitReached if they can't be shown; call it in a thread.
    """
    distinct = list({interrupt.id: interrupt for interrupt in interrupts}.values())
    questions = [form for form in map(_form_of, distinct) if isinstance(form, Question)]
    asked = [
        (place(interrupt, index), request)
        for interrupt in distinct
        for index, request in enumerate(requests_of(interrupt, len(distinct)))
    ]
    requests: list[HumanRequest] = []
    # A call whose own id looks like a place is named by its place, so that a place names one call only.
    taken = {name for name, _ in asked}
    for name, request in asked:
        if request.call_id is not None:
            if request.call_id in taken:
                # Some models number their calls, so that agents that work in parallel may use the same ids.
                request = request.model_copy(update={"call_id": name})
            taken.add(str(request.call_id))
        requests.append(request)
    titles = (question.title for question in questions)
    return HumanRequests(title=next(filter(None, titles), None), requests=requests) if requests else None


def require_answerable(interrupts: Iterable[Interrupt], askers: Mapping[str, CodeType]) -> None:
    """Check the schemas of the answers; `askers` are the functions that ask, by their interrupts. Call it in a thread.

    Raises AgentUnavailable, and LimitReached if a schema is too large to be shown.
    """
    for one in interrupts:
        try:
            if isinstance(form := _form_of(one), Question):
                form.require_answerable()
        except UnusableSchema as error:
            unusable = PlacedError(f"The agent asks a person with an unusable schema: {error}", askers.get(one.id))
            raise _unanswerable() from unusable


def asks_with_unusable_type(error: BaseException) -> AgentUnavailable | None:
    """The error of an agent that calls `interrupt` with a type of which pydantic makes no schema; None of others."""
    if not isinstance(error, PydanticUserError):
        return None
    frames = [frame.f_code for frame, _ in traceback.walk_tb(traceback_of(error))]
    return _unanswerable() if asking_function.__code__ in frames else None


def _unanswerable() -> AgentUnavailable:
    return AgentUnavailable(
        "The agent asks something in a way that nobody can answer: its author's schema of the answer is unusable.",
        retryable=False,
    )


def requests_of(interrupt: Interrupt, among: int = 1) -> list[HumanRequest]:
    """The requests of `interrupt`, one `among` so many interrupts that are shown together."""
    requests = _form_of(interrupt).requests
    value = cut(value_form(interrupt.value), min(LONGEST_VALUE, _LONGEST_VALUES // (among * len(requests))))
    return [request.model_copy(update={"value": value}) for request in requests]


def called_names(interrupt: Interrupt) -> list[str]:
    """The names of the tools of the calls that `interrupt` asks about."""
    calls = calls_of(interrupt.value) or [interrupt.value] * is_call(interrupt.value)
    return [str(call.get("name", "")) for call in calls]


def asked_again(requests: HumanRequests, decided: int) -> HumanRequests:
    """`requests` with new interrupt ids, if the exchange already has `decided` decisions.

    A graph may ask again under the same id; the new ids keep later requests apart from decided ones.
    """
    if not decided:
        return requests
    named = [one.model_copy(update={"interrupt_id": f"{one.interrupt_id}.{decided}"}) for one in requests.requests]
    return requests.model_copy(update={"requests": named})


def interrupt_id_of(name: str) -> str:
    """LangGraph's id of the interrupt that a request or decision names; its ids contain neither a colon nor a dot."""
    return re.split("[:.]", name, maxsplit=1)[0]


def is_refusal(decision: HumanDecision) -> bool:
    """Whether the decision is that the graph does not go on from a breakpoint."""
    return is_breakpoint(decision.interrupt_id) and decision.answer is not True


def resume_values(interrupts: Iterable[Interrupt], decisions: Iterable[HumanDecision]) -> dict[str, Any]:
    """The values for `Command(resume=…)`: by interrupt id, the answer in the form that the interrupt expects.

    Of several rounds of decisions on an interrupt the last counts. An interrupt that it does not settle in full is left
    out. Raises ApprovalMismatch if a decision is about other arguments than its call has.
    """
    made = _last_rounds(decisions)
    values: dict[str, Any] = {}
    for interrupt in interrupts:
        form, settled = _form_of(interrupt), made.get(interrupt.id)
        if settled is None:
            continue
        requests = form.requests
        found = [_decision_on(request, place(interrupt, index), settled) for index, request in enumerate(requests)]
        matched = [decision for decision in found if decision is not None]
        if len(matched) == len(requests):
            values[interrupt.id] = form.resume(matched)
    return values


def _last_rounds(decisions: Iterable[HumanDecision]) -> Mapping[str, Mapping[str, HumanDecision]]:
    """The last round of decisions on each interrupt, by the call's id or the name of the request."""
    rounds: dict[str, dict[str, dict[str, HumanDecision]]] = {}
    for decision in decisions:
        name, _, number = decision.interrupt_id.partition(".")
        by_round = rounds.setdefault(interrupt_id_of(name), {})
        by_round.setdefault(number, {})[decision.call_id or name] = decision
    # Decisions are kept in the order in which they were made.
    return {interrupt_id: list(by_round.values())[-1] for interrupt_id, by_round in rounds.items()}


def _decision_on(request: HumanRequest, place: str, settled: Mapping[str, HumanDecision]) -> HumanDecision | None:
    if request.call_id is None:
        decision = settled.get(request.interrupt_id)
    else:
        # The place first, because a call's own id may name another call with the same id.
        decision = settled.get(place) or settled.get(request.call_id)
    if decision is not None and decision.args_sha256 != request.args_sha256:
        raise ApprovalMismatch
    return decision.given if decision is not None else None


def _form_of(interrupt: Interrupt) -> Form:
    value = interrupt.value
    if is_breakpoint(interrupt.id):
        return BreakpointQuestion(interrupt)
    if calls_of(value):
        return CallBatch(interrupt)
    if is_call(value):
        return CallApproval(interrupt)
    if actions_of(value):
        return AgentInbox(interrupt)
    return Question(interrupt)
