"""The trust call: what the answer of an exchange rests on."""

from agentic_backend.auth.user import User
from agentic_backend.errors import ExchangeNotFound
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.sessions.reading.trust_reports import TrustReports
from agentic_backend.transports.calls.sessions.sessions_api import PREFIX
from agentic_backend.transports.rest.operation import Operation


class TrustApi:
    def __init__(self, reports: TrustReports) -> None:
        self._reports = reports

    def operations(self) -> list[Operation]:
        return [Operation("GET", f"{PREFIX}/exchanges/{{id}}/trust", self.get_trust, errors=(ExchangeNotFound,))]

    async def get_trust(self, user: User, id: str) -> TrustSummary:
        """What the answer of an exchange rests on: its statements, tools, sources, and objections to its texts."""
        return await self._reports.of(user, id)
