"""What `GET /exchanges/{id}` tells of an exchange, however much was decided in it."""

from agentic_backend.transports.exchanges_api import ExchangeView
from tests.stores.samples import a_decision, a_session, an_exchange


def test_of_many_decisions_the_last_ones_are_told() -> None:
    decisions = [a_decision(f"i{number}", args={"text": "x" * 100_000}) for number in range(40)]
    told = ExchangeView.of(an_exchange(a_session(), decisions=decisions)).decisions
    assert told == decisions[-10:]
    assert ExchangeView.of(an_exchange(a_session(), decisions=decisions[:3])).decisions == decisions[:3]


def test_a_decision_that_is_too_large_is_told_all_the_same() -> None:
    large = a_decision(args={"text": "x" * 2_000_000})
    assert ExchangeView.of(an_exchange(a_session(), decisions=[a_decision(), large])).decisions == [large]
    assert ExchangeView.of(an_exchange(a_session())).decisions is None
