"""How users sign in: a call without authentication, because it says where to get a token."""

from typing import Literal, Self
from urllib.parse import urlsplit

from agentic_backend.config.settings import AuthSettings
from agentic_backend.protocol.parts import Value, absent


class SignIn(Value):
    """The public sign-in settings. `realm_url` and `client_id` are set in the mode `keycloak`."""

    mode: Literal["developer", "keycloak"]
    realm_url: str | None = absent()
    client_id: str | None = absent()

    @classmethod
    def of(cls, auth: AuthSettings) -> Self:
        if auth.mode == "developer":
            return cls(mode=auth.mode)
        return cls(mode=auth.mode, realm_url=auth.keycloak.realm_url, client_id=auth.keycloak.client_id)

    @property
    def origin(self) -> str | None:
        """The origin that the page gets tokens from; None if it needs none."""
        if self.realm_url is None:
            return None
        parts = urlsplit(self.realm_url)
        return f"{parts.scheme}://{parts.netloc}"
