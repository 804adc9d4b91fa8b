"""How much the tests of faults do: a little in every run of the tests, all that is promised with `TESTS=long`."""

from dataclasses import dataclass

from support.further_cases import LONG


@dataclass(frozen=True)
class Sizes:
    reconnects: int
    kills: int
    lost_s: float
    """What a kill may cost of a text; the promise is a second, but a short form shares its cores with other tests."""
    races: int
    hopping: int
    """Exchanges whose client goes from instance to instance."""
    exchanges: int
    """Those that run while three instances are restarted one after the other."""
    tampered: int
    """Decisions that nobody may make."""
    frames: int
    """Of rubbish."""
    clients: int
    rounds: int
    """How often they talk with, and without, one among them that is stalled."""
    stalled_ratio: float
    """What that one may add to the others' p95; little can be told from one round."""
    timeout_s: int
    """For one test."""


_SHORT = Sizes(
    reconnects=30,
    kills=2,
    lost_s=3.0,
    races=80,
    hopping=8,
    exchanges=20,
    tampered=20,
    frames=3_000,
    clients=25,
    rounds=1,
    stalled_ratio=5.0,
    timeout_s=300,
)
_LONG = Sizes(
    reconnects=1_000,
    kills=100,
    lost_s=1.0,
    races=10_000,
    hopping=80,
    exchanges=200,
    tampered=1_000,
    frames=1_000_000,
    clients=200,
    rounds=5,
    stalled_ratio=1.1,
    timeout_s=3_600,
)

SIZES = _LONG if LONG else _SHORT
