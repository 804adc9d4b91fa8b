"""The steps of runs: whose, how many, and that what a step got is bounded whatever it is."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import uuid4

import orjson
import pytest
from langchain_core.messages import HumanMessage
from support.driven_run import opening_of, query_record
from support.recorded_agents import entry_of
from support.test_agents import echo_graph

from agentic_backend.exchange.run.recent_run_steps import MOST_AT_ONCE, RecentRunSteps
from agentic_backend.exchange.run.run_steps import RunSteps
from agentic_backend.exchange.run.step_values import step_value, without_secrets
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.stores.records import SessionRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HUGE = 10**4000
SESSION = SessionRecord(id="s1", user_id="user", agent_id="recorded", title="", created_at=NOW, updated_at=NOW)


def start_of(exchange_id: str, *, for_author: bool = True) -> ExchangeStart:
    record, opening = query_record(exchange_id), opening_of(exchange_id)
    return ExchangeStart(record, entry_of(echo_graph), SESSION, opening, for_author=for_author)


def test_runs_are_traced_for_authors_only_and_not_under_load() -> None:
    run_steps = RecentRunSteps()
    assert run_steps.begin(start_of("e1", for_author=False), 1) is None
    assert run_steps.begin(start_of("e2"), MOST_AT_ONCE + 1) is None
    begun = run_steps.begin(start_of("e3"), MOST_AT_ONCE)
    assert begun is not None and run_steps.of("e3") is begun
    assert run_steps.begin(start_of("e3"), MOST_AT_ONCE + 1) is begun, "a run that goes on stays in its trace"


def test_the_last_runs_are_kept_until_their_user_is_deleted() -> None:
    run_steps = RecentRunSteps()
    for number in range(100):
        run_steps.begin(start_of(f"e{number}"), 1)
    assert run_steps.of("e35") is None and run_steps.of("e36") is not None and run_steps.of("e99") is not None
    run_steps.forget_exchanges(["e99"])
    assert run_steps.of("e99") is None
    run_steps.forget("user")
    assert run_steps.of("e98") is None


class BeginsAnother(dict[str, Any]):
    """An input that another tool begins beside while it is copied, as in another thread."""

    def __init__(self, trace: RunSteps) -> None:
        self._trace = trace

    def items(self) -> Any:
        self._trace.on_tool_start({"name": "beside"}, "", run_id=uuid4())
        return super().items()


def test_each_step_has_its_place_as_its_id_when_another_begins_meanwhile() -> None:
    trace = RunSteps("e1", "user", "recorded")
    trace.on_tool_start({"name": "slow"}, "", run_id=uuid4(), inputs={"given": BeginsAnother(trace)})
    assert [(step.id, step.name) for step in trace.steps] == [(0, "beside"), (1, "slow")]


@dataclass
class Itself:
    inner: list[Any] = field(default_factory=list)


def circle() -> Itself:
    made = Itself()
    made.inner.append(made)
    return made


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000_000,
        ["x" * 5_000] * 10_000,
        {f"key {number}": list(range(1_000)) for number in range(1_000)},
        {"messages": [HumanMessage("x" * 100_000)] * 1_000},
        circle(),
        [[[[[[[[[[[[[[[[[["deep"]]]]]]]]]]]]]]]]]],
        b"x" * 10_000_000,
        MappingProxyType({"when": datetime(2026, 1, 1, tzinfo=UTC), "how": Decimal("1.5"), "what": object()}),
        "\ud800",
        float("nan"),
        2**100,
        {str(one): [{str(two): HUGE for two in range(60)} for _ in range(40)] for one in range(60)},
        {(("x" * 1_000,) * 1_000, number): number for number in range(100)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_step_got_is_bounded_json(value: Any) -> None:
    form, chars = step_value(value)
    assert len(orjson.dumps(form)) < 100_000
    assert chars < 100_000


class Lookless(tuple[int, ...]):
    """Fails where one of its items is looked at that is not shown."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("it went over all items")


def test_the_cost_of_a_long_sequence_does_not_grow_with_it() -> None:
    assert step_value(Lookless(range(100)))[0] == ["[60 before these left out]", *range(60, 100)]
    form, _ = step_value(set(range(100)))
    assert form[0] == "[60 before these left out]" and len(form) == 41


def test_a_key_that_is_no_text_is_shown() -> None:
    value = {("a", 1): 1, None: 2, 7: 3, 2**100: 4, Repr(): 5}
    assert step_value(value)[0] == {"['a', 1]": 1, "None": 2, "7": 3, str(2**100): 4, "<Repr>": 5}


class Repr:
    def __repr__(self) -> str:
        raise AssertionError("it was asked how it looks")


def test_secrets_are_left_out_of_keys_too() -> None:
    secrets = ("very-secret-value",)
    told = without_secrets({"by very-secret-value": {"sk-abcdefgh12345678": 1}}, secrets)
    assert told == {"by [redacted]": {"[redacted]": 1}}


def test_secrets_are_left_out() -> None:
    told = without_secrets({"a": ["the key is very-secret-value", 7]}, ("very-secret-value",))
    assert told == {"a": ["the key is [redacted]", 7]}


@pytest.mark.parametrize("shown", [0, 1, 20, 43])
@pytest.mark.parametrize("more", [0, 5_000])
def test_a_secret_that_the_cut_goes_through_is_left_out(shown: int, more: int) -> None:
    secret = "hunter2-super-secret-value-0123456789-abcdef"
    form, _ = step_value("x" * (4_000 - shown) + secret + "y" * more, [secret])
    assert "hunter2" not in form and form.startswith("xxxx")
    assert form.endswith("more characters left out]") and len(form) < 4_100


def test_the_error_of_a_step_shows_no_part_of_a_secret_either() -> None:
    trace, run_id = RunSteps("e1", "user", "recorded"), uuid4()
    trace.secrets = ["hunter2-super-secret-value"]
    trace.on_chat_model_start({}, [[HumanMessage("hi")]], run_id=run_id)
    trace.on_llm_error(ValueError("x" * 1_990 + trace.secrets[0] + "y" * 2_000), run_id=run_id)
    assert trace.steps[0].error is not None and "hunter2" not in trace.steps[0].error
