"""Checks a Keycloak realm: its discovery document, its issuer, its signing keys, and its clock."""

import asyncio
import time
from email.utils import parsedate_to_datetime

import httpx

from agentic_backend.auth.jwks import KeysUnavailable
from agentic_backend.auth.keycloak_realm import KeycloakRealm
from agentic_backend.config.checks import CheckFailed
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.system_errors import summary_of

_CHANGE = "check auth.keycloak.realm_url and auth.keycloak.internal_url, and whether Keycloak runs"


async def check_realm(settings: KeycloakSettings, limit_s: float) -> str:
    """What was found, in words. Raises CheckFailed."""
    realm = await asyncio.to_thread(KeycloakRealm, settings)
    try:
        keys = await realm.keys()
    except KeysUnavailable as error:
        raise CheckFailed(str(error), _CHANGE) from error
    finally:
        await realm.aclose()
    ahead_s = await asyncio.to_thread(_ahead_s, settings.internal_url or settings.realm_url or "", limit_s)
    found = f"discovery document and {len(keys)} signing keys read"
    if ahead_s is None:
        return f"{found}; it tells no time, so the clocks were not compared"
    if abs(ahead_s) > settings.leeway_s:
        told = f"this machine's clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the realm's"
        raise CheckFailed(told, f"set the clocks by NTP; tokens may be {settings.leeway_s:g} s off")
    return f"{found}; the clocks differ by {abs(ahead_s):.0f} s"


def _ahead_s(realm_url: str, limit_s: float) -> float | None:
    """How far this machine's clock is ahead of the realm's, in seconds, to about a second. Blocks.

    None if its answers have no date: a Keycloak sends none, a proxy before it may add one.
    """
    asked_at = time.time()
    try:
        answer = httpx.get(f"{realm_url}/.well-known/openid-configuration", timeout=limit_s)
        if (date := answer.headers.get("date")) is None:
            return None
        told = parsedate_to_datetime(date).timestamp()
    except (httpx.HTTPError, ValueError) as error:
        raise CheckFailed(f"its time could not be read ({summary_of(error)})", _CHANGE) from error
    # Its time is cut to the second, and was read between the request and the answer.
    middle = (asked_at + time.time()) / 2 - 0.5
    return middle - told
