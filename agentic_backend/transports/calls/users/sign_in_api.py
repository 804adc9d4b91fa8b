"""The REST call that tells how to sign in."""

from agentic_backend.transports.calls.sessions.sessions_api import PREFIX
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import Operation
from agentic_backend.transports.sign_in import SignIn


class SignInApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services

    def operations(self) -> list[Operation]:
        return [Operation("GET", f"{PREFIX}/sign-in", self.get_sign_in, public=True)]

    async def get_sign_in(self) -> SignIn:
        """How to sign in: where a client gets its access token, if it needs one."""
        return self._door.sign_in
