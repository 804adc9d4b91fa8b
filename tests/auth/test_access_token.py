"""Which tokens get in: every wrong one is refused with its code, signed with real keys."""

import json
import time
from collections.abc import Callable

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jwt.warnings import InsecureKeyLengthWarning
from support.signing_realm import CLIENT, SHORT, SigningRealm, b64, public_jwk

from agentic_backend.auth.access_token import AccessTokenVerifier
from agentic_backend.auth.keycloak import KeycloakAuthenticator, keycloak_authenticator
from agentic_backend.auth.user import User
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.errors import AgenticError, Forbidden, TokenExpired, Unauthenticated

NOW = int(time.time())
DAY_S = 86_400


async def user_of(realm: SigningRealm, token: str, **changes: object) -> User:
    wanted = realm.settings.model_copy(update=changes)
    async with keycloak_authenticator(wanted, lambda call, why: None) as authenticator:
        return await authenticator.authenticate(token)


async def refused(realm: SigningRealm, token: str, **changes: object) -> AgenticError:
    with pytest.raises(AgenticError) as caught:
        await user_of(realm, token, **changes)
    return caught.value


def unsigned(realm: SigningRealm) -> str:
    return jwt.encode(realm.claims(), None, "none", headers={"kid": "first"})


def unsigned_with_a_signature(realm: SigningRealm) -> str:
    header, payload, _ = unsigned(realm).split(".")
    return f"{header}.{payload}.{realm.sign().rpartition('.')[2]}"


def altered(realm: SigningRealm) -> str:
    header, _, signature = realm.sign().split(".")
    return f"{header}.{b64(json.dumps(realm.claims(sub='somebody-else')).encode())}.{signature}"


def with_header(realm: SigningRealm, header: str) -> str:
    return f"{b64(header.encode())}.{realm.sign().partition('.')[2]}"


WRONG: dict[str, Callable[[SigningRealm], str]] = {
    "alg none": unsigned,
    "alg none, with a signature": unsigned_with_a_signature,
    "HS256 with the public key": SigningRealm.sign_with_public_key,
    "an algorithm that is not in the list": lambda realm: realm.sign(algorithm="RS512"),
    "signed by another key": lambda realm: realm.sign("second", named="first"),
    "altered": altered,
    "unknown kid": lambda realm: realm.sign("second"),
    "no kid": lambda realm: with_header(realm, '{"alg": "RS256"}'),
    "a kid that is no text": lambda realm: with_header(realm, '{"alg": "RS256", "kid": 5}'),
    "a header that must be understood": lambda realm: with_header(
        realm, '{"alg": "RS256", "kid": "first", "crit": ["x"], "x": 1}'
    ),
    "a header that nests without end": lambda realm: with_header(realm, "[" * 9_000),
    "a header that nests just so far": lambda realm: with_header(
        realm, f'{{"alg": "RS256", "kid": "first", "x": {"[" * 1_000 + "]" * 1_000}}}'
    ),
    "a header that is no object": lambda realm: with_header(realm, "[]"),
    "wrong issuer": lambda realm: realm.sign(iss="https://login.example.org/realms/tests"),
    "an issuer that begins as the right one": lambda realm: realm.sign(iss=realm.url + "/more"),
    "no issuer": lambda realm: realm.sign(iss=None),
    "wrong audience, and no azp": lambda realm: realm.sign(azp=None, aud="account"),
    "no audience, and no azp": lambda realm: realm.sign(azp=None, aud=None),
    "other client's azp": lambda realm: realm.sign(azp="other-client"),
    "other client's azp, with the right audience": lambda realm: realm.sign(azp="other-client", aud=[CLIENT]),
    "an audience that is no text": lambda realm: realm.sign(aud=[5]),
    "ID token": lambda realm: realm.sign(typ="ID", aud=CLIENT),
    "refresh token": lambda realm: realm.sign(typ="Refresh", aud=realm.url),
    "no typ": lambda realm: realm.sign(typ=None),
    "no exp": lambda realm: realm.sign(exp=None),
    "an exp that is no number": lambda realm: realm.sign(exp="soon"),
    "an exp without end": lambda realm: realm.sign(exp=float("inf")),
    "no iat": lambda realm: realm.sign(iat=None),
    "iat in the future": lambda realm: realm.sign(iat=NOW + DAY_S),
    "nbf in the future": lambda realm: realm.sign(nbf=NOW + DAY_S),
    "no sub": lambda realm: realm.sign(sub=None),
    "an empty sub": lambda realm: realm.sign(sub=""),
    "roles that are none": lambda realm: realm.sign(realm_access="admin"),
    "100 kB": lambda realm: realm.sign(padding="x" * 100_000),
    "100 kB of nothing": lambda realm: "x" * 100_000,
    "truncated by a character": lambda realm: realm.sign()[:-1],
    "truncated in the signature": lambda realm: realm.sign()[:-100],
    "truncated in the payload": lambda realm: realm.sign()[:150],
    "no signature": lambda realm: realm.sign().rpartition(".")[0] + ".",
    "longer by a part": lambda realm: realm.sign() + ".x",
    "with a space": lambda realm: realm.sign() + " ",
    "with a line": lambda realm: realm.sign() + "\n",
    "not ASCII": lambda realm: realm.sign() + "é",
    "a lone surrogate": lambda realm: realm.sign() + "\ud800",
    "empty": lambda realm: "",
    "a developer's": lambda realm: "dev:alice",
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_token_is_refused(realm: SigningRealm, name: str) -> None:
    async with keycloak_authenticator(realm.settings, lambda call, why: None) as authenticator:
        with pytest.raises(AgenticError) as caught:
            await authenticator.authenticate(WRONG[name](realm))
        error = caught.value
        assert (type(error), error.code, error.http_status) == (Unauthenticated, "unauthenticated", 401)
        assert (await authenticator.authenticate(realm.sign())).id == "alice-id", "a right one gets in"


OUTCOMES = {
    "alg none, with a signature": "algorithm",
    "an algorithm that is not in the list": "algorithm",
    "signed by another key": "signature",
    "unknown kid": "unknown_key",
    "wrong issuer": "issuer",
    "wrong audience, and no azp": "audience",
    "other client's azp": "azp",
    "nbf in the future": "not_yet_valid",
    "iat in the future": "not_yet_valid",
    "ID token": "not_an_access_token",
    "an audience that is no text": "claims",
    "no exp": "claims",
    "no sub": "claims",
    "empty": "malformed",
}


@pytest.mark.parametrize(("name", "outcome"), OUTCOMES.items())
async def test_the_operator_is_told_why_and_the_client_is_not(realm: SigningRealm, name: str, outcome: str) -> None:
    async with keycloak_authenticator(realm.settings, lambda call, why: None) as authenticator:
        with pytest.raises(Unauthenticated) as caught:
            await authenticator.authenticate(WRONG[name](realm))
    assert (caught.value.reason, caught.value.content) == (outcome, Unauthenticated.default)


@pytest.mark.parametrize("ago_s", [31, DAY_S])
async def test_an_old_token_is_told_apart(realm: SigningRealm, ago_s: int) -> None:
    error = await refused(realm, realm.sign(exp=int(time.time()) - ago_s))
    assert (type(error), error.code, error.http_status) == (TokenExpired, "token_expired", 401)


async def test_an_old_token_of_nobody_is_only_wrong(realm: SigningRealm) -> None:
    token = realm.sign("second", named="first", exp=NOW - DAY_S)
    assert isinstance(await refused(realm, token), Unauthenticated)


async def test_the_bearer_of_a_token_is_known(realm: SigningRealm) -> None:
    expires_at = int(time.time()) + 300
    user = await user_of(realm, realm.sign(exp=expires_at))
    assert user == User("alice-id", "alice", frozenset({"analyst", "writer"}), float(expires_at))
    assert (await user_of(realm, realm.sign(preferred_username=None, name="Alice A."))).name == "Alice A."
    bare = realm.sign(exp=expires_at, preferred_username=None, realm_access=None, resource_access=None)
    assert await user_of(realm, bare) == User("alice-id", "alice-id", frozenset(), float(expires_at))


async def test_roles_of_other_clients_are_none(realm: SigningRealm) -> None:
    token = realm.sign(resource_access={"other": {"roles": ["admin"]}, "account": {"roles": ["admin"]}})
    assert (await user_of(realm, token)).roles == {"analyst"}


@pytest.mark.parametrize("shifts", [{"exp": -20}, {"iat": 20, "nbf": 20}, {"iat": -DAY_S}])
async def test_clocks_may_differ(realm: SigningRealm, shifts: dict[str, int]) -> None:
    claims = {name: int(time.time()) + shift for name, shift in shifts.items()}
    assert (await user_of(realm, realm.sign(**claims))).id == "alice-id"


@pytest.mark.parametrize(
    "claims",
    [
        {"azp": None, "aud": CLIENT},
        {"azp": None, "aud": ["account", CLIENT]},
        {"aud": None},
    ],
)
async def test_one_of_aud_and_azp_is_enough(realm: SigningRealm, claims: dict[str, object]) -> None:
    assert (await user_of(realm, realm.sign(**claims))).id == "alice-id"


async def test_the_leeway_is_a_setting(realm: SigningRealm) -> None:
    assert isinstance(await refused(realm, realm.sign(exp=int(time.time()) - 5), leeway_s=0), TokenExpired)


async def test_where_an_audience_is_set_the_token_must_be_meant_for_it(realm: SigningRealm) -> None:
    meant = realm.sign(aud=["account", "backend"], resource_access={"backend": {"roles": ["keeper"]}})
    assert (await user_of(realm, meant, audience="backend")).roles == {"analyst", "keeper"}
    assert (await user_of(realm, realm.sign(aud="backend", azp=None), audience="backend")).id == "alice-id"
    for token in (realm.sign(), realm.sign(aud=[CLIENT]), realm.sign(aud="backend", azp="other-client")):
        assert isinstance(await refused(realm, token, audience="backend"), Unauthenticated)


async def test_who_lacks_a_required_role_is_forbidden(realm: SigningRealm) -> None:
    assert (await user_of(realm, realm.sign(), required_roles=("analyst", "writer"))).id == "alice-id"
    error = await refused(realm, realm.sign(), required_roles=("analyst", "admin"))
    assert (type(error), error.code, error.http_status) == (Forbidden, "forbidden", 403)


async def test_other_algorithms_of_the_list_are_accepted(realm: SigningRealm) -> None:
    realm.jwks = {"keys": [public_jwk("first", alg="PS256")]}
    token = realm.sign(algorithm="PS256")
    assert (await user_of(realm, token, algorithms=("PS256",))).id == "alice-id"
    assert isinstance(await refused(realm, token), Unauthenticated)
    assert isinstance(await refused(realm, realm.sign(), algorithms=("RS256", "PS256")), Unauthenticated)


async def test_a_key_that_is_too_short_signs_nothing(realm: SigningRealm) -> None:
    realm.jwks = {"keys": [public_jwk(SHORT)]}
    with pytest.warns(InsecureKeyLengthWarning):
        token = realm.sign(SHORT)
    assert isinstance(await refused(realm, token), Unauthenticated)


VERIFIER = AccessTokenVerifier(KeycloakSettings(realm_url="https://login.example.org/realms/tests"))
SEGMENT = st.binary(max_size=60).map(b64) | st.text(max_size=20)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=80) | st.lists(SEGMENT, max_size=4).map(".".join))
def test_whatever_is_sent_is_a_key_id_or_refused(token: str) -> None:
    try:
        VERIFIER.key_id(token)
    except Unauthenticated:
        pass


async def test_an_authenticator_lets_nobody_in_without_a_token(realm: SigningRealm) -> None:
    async with keycloak_authenticator(realm.settings, lambda call, why: None) as authenticator:
        assert isinstance(authenticator, KeycloakAuthenticator)
        assert authenticator.anonymous is None
