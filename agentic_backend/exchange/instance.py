"""Instance: the identity of one running server process in the store."""

from dataclasses import dataclass, field
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class Instance:
    """`id` is new at each start, which distinguishes a restarted server from the one that died.

    `lease_s` is how long, in seconds, an instance may be silent before others end its exchanges.
    """

    lease_s: float
    id: str = field(default_factory=lambda: uuid4().hex)
