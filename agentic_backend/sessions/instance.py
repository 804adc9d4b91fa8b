"""Instance: one running server process, as the store knows it."""

from dataclasses import dataclass, field
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class Instance:
    """`id` is new at each start, so that a server that comes back is told apart from the one that died.

    `lease_s` is how long an instance may give no sign of life before others end what it runs.
    """

    lease_s: float
    id: str = field(default_factory=lambda: uuid4().hex)
