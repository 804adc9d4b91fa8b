"""The circuit opens after failures in a row, tries one call after a while, and closes again."""

from agentic_backend.policy.circuit import Circuit, CircuitState


def failing(times: int) -> Circuit:
    circuit = Circuit(failures=3, open_s=10)
    for second in range(times):
        assert circuit.admits(second)
        circuit.failed(second)
    return circuit


def test_it_opens_after_failures_in_a_row() -> None:
    assert failing(2).admits(2)
    circuit = failing(3)
    assert not circuit.admits(3) and not circuit.admits(11.9)
    circuit = failing(2)
    circuit.succeeded()
    circuit.failed(3)
    assert circuit.state is CircuitState.CLOSED


def test_one_call_is_tried_at_a_time_and_decides() -> None:
    circuit = failing(3)
    assert circuit.admits(12)
    assert not circuit.admits(12)
    circuit.failed(13)
    assert not circuit.admits(22)
    assert circuit.admits(23)
    circuit.succeeded()
    assert circuit.admits(23) and circuit.admits(23)


def test_a_call_that_tells_nothing_leaves_the_next_one_to_try() -> None:
    circuit = failing(3)
    assert circuit.admits(12)
    circuit.let_go()
    assert circuit.admits(12)
