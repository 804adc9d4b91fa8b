"""Instance: one running server process, as the store knows it."""

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.base import Lease


@dataclass(frozen=True, slots=True)
class Instance:
    """`id` is new at each start, so that a server that comes back is told apart from the one that died."""

    lease_s: float
    id: str = field(default_factory=lambda: uuid4().hex)

    def lease(self) -> Lease:
        """A claim to what this instance runs, from now on."""
        return Lease(self.id, utc_now() + timedelta(seconds=self.lease_s))
