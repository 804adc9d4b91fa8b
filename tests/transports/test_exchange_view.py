"""What `GET /exchanges/{id}` tells of an exchange, however much was decided in it."""

from collections.abc import Sequence

from agentic_backend.sessions.reading.exchange_kpi import exchange_kpi
from agentic_backend.stores.records import HumanDecision
from agentic_backend.transports.calls.sessions.exchanges_api import ExchangeView
from tests.stores.samples import a_decision, a_session, an_exchange


def view(decisions: Sequence[HumanDecision]) -> ExchangeView:
    exchange = an_exchange(a_session(), decisions=list(decisions))
    return ExchangeView.of(exchange, exchange_kpi(exchange, None, []))


def test_of_many_decisions_the_last_ones_are_told() -> None:
    decisions = [a_decision(f"i{number}", args={"text": "x" * 100_000}) for number in range(40)]
    told = view(decisions).decisions
    assert told == decisions[-10:]
    assert view(decisions[:3]).decisions == decisions[:3]


def test_a_decision_that_is_too_large_is_told_all_the_same() -> None:
    large = a_decision(args={"text": "x" * 2_000_000})
    assert view([a_decision(), large]).decisions == [large]
    assert view([]).decisions is None
