"""A circuit opens after failures in a row, tries one call after a while, and closes again; for all or for one."""

from agentic_backend.policy.hooks.circuit import Circuit, Circuits, CircuitState


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


def test_what_one_user_says_keeps_the_module_from_nobody_else() -> None:
    circuits = Circuits()
    for second in range(7):
        if circuits.admits("eve", second):
            circuits.failed("eve", second)
    assert not circuits.admits("eve", 7) and circuits.users_kept_away(7) == 1
    assert circuits.admits("bob", 7) and circuits.state is CircuitState.CLOSED
    circuits.succeeded("bob")
    assert not circuits.admits("eve", 8), "another's success is not hers"
    assert circuits.admits("eve", 40) and not circuits.admits("eve", 40), "one call is tried"
    circuits.succeeded("eve")
    assert circuits.admits("eve", 41) and circuits.users_kept_away(41) == 0


def test_a_module_that_is_away_is_so_for_all() -> None:
    circuits = Circuits()
    for second, user in enumerate(["eve", "eve", "bob", "eve", "bob"]):
        assert circuits.admits(user, second)
        circuits.was_away(user, second)
    assert not circuits.admits("carol", 5) and circuits.state is CircuitState.OPEN
    assert circuits.users_kept_away(5) == 0
    # The call that is tried fails at its text: that is no sign that the module is back, and the next one is tried.
    assert circuits.admits("carol", 40)
    circuits.failed("carol", 40)
    assert circuits.admits("bob", 40)
    circuits.succeeded("bob")
    assert circuits.state is CircuitState.CLOSED


def test_no_more_than_a_thousand_users_are_remembered() -> None:
    circuits = Circuits()
    for user in range(1_100):
        for _ in range(5):
            circuits.failed(str(user), 0)
        assert circuits.users_kept_away(1) == min(user + 1, 1_000)
    assert circuits.admits("0", 1) and not circuits.admits("1099", 1)


def test_a_call_from_before_it_opened_closes_no_circuit() -> None:
    circuits = Circuits()
    assert circuits.admits("slow", 0)
    for second in range(5):
        circuits.was_away("bob", second)
    circuits.succeeded("slow")
    assert circuits.state is CircuitState.OPEN
