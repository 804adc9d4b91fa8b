"""A user's newest tokens: which ones stay, when they are renewed, and what a renewal that fails does."""

import asyncio
import gc
import time

import pytest

from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user import Tokens
from agentic_backend.auth.user_tokens import TokenCache, UserTokens, renewal_time
from agentic_backend.errors import AuthUnavailable, TokenExpired, Unauthenticated

HOUR_S = 3600.0


def token(name: str, refresh_token: str | None = None, *, lasts_s: float = HOUR_S) -> Tokens:
    return Tokens(name, refresh_token, time.time() + lasts_s)


class Realm:
    """Renews tokens as Keycloak does where each refresh token counts once. `error` is raised instead."""

    def __init__(self, valid: str = "r1") -> None:
        self.valid = valid
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.answering = asyncio.Event()
        self.answering.set()

    async def refresh(self, refresh_token: str) -> Tokens:
        self.asked.append(refresh_token)
        await self.answering.wait()
        if self.error is not None:
            raise self.error
        if refresh_token != self.valid:
            raise Unauthenticated("Keycloak did not accept the token; sign in again.")
        number = len(self.asked) + 1
        self.valid = f"r{number}"
        return token(f"a{number}", self.valid)


def of(realm: Realm, tokens: Tokens) -> UserTokens:
    held = UserTokens(realm.refresh)
    held.offer(tokens)
    return held


def test_tokens_that_last_longer_replace_the_others() -> None:
    held = of(Realm(), token("first", "r1"))
    held.offer(token("older", "r0", lasts_s=HOUR_S / 2))
    assert (held.access_token, held.refresh_token) == ("first", "r1")
    held.offer(token("newer", "r2", lasts_s=2 * HOUR_S))
    assert (held.access_token, held.refresh_token) == ("newer", "r2")
    held.offer(None)
    assert held.access_token == "newer"


def test_the_tokens_that_came_last_are_known_within_bounds() -> None:
    held = of(Realm(), token("a0", "r0"))
    for number in range(1, 100):
        held.offer(token(f"a{number}", f"r{number}", lasts_s=HOUR_S + number))
    assert list(held.latest) == [f"{kind}{number}" for number in range(84, 100) for kind in "ar"]


def test_a_renewal_with_an_access_token_alone_keeps_the_refresh_token() -> None:
    held = of(Realm(), token("first", "r1"))
    held.offer(token("newer", lasts_s=2 * HOUR_S))
    assert (held.access_token, held.refresh_token) == ("newer", "r1")


def test_an_older_pair_gives_its_refresh_token_where_there_is_none() -> None:
    held = of(Realm(), token("first"))
    held.offer(token("older", "r0", lasts_s=HOUR_S / 2))
    assert (held.access_token, held.refresh_token) == ("first", "r0")


async def test_all_who_need_a_newer_token_share_one_renewal_and_the_latest_refresh_token_stays() -> None:
    realm = Realm()
    held = of(realm, token("a1", "r1"))
    assert await asyncio.gather(*(held.renewed() for _ in range(5))) == ["a2"] * 5
    assert await asyncio.gather(*(held.usable(refused="a2") for _ in range(5))) == ["a3"] * 5
    assert await held.usable(refused="a1") == "a3", "what was refused has been replaced already"
    assert realm.asked == ["r1", "r2"]
    assert held.refresh_token == realm.valid


async def test_a_caller_that_is_stopped_loses_no_refresh_token() -> None:
    realm = Realm()
    realm.answering.clear()
    held = of(realm, token("a1", "r1"))
    stopped = asyncio.create_task(held.renewed())
    while not realm.asked:
        await asyncio.sleep(0)
    stopped.cancel()
    await asyncio.wait({stopped})
    realm.answering.set()
    assert await held.renewed("a1") == "a2"
    assert realm.asked == ["r1"]


@pytest.mark.parametrize(("lasts_s", "early_s"), [(HOUR_S, 30), (200, 30), (100, 20), (6, 1.2), (-5, 0)])
def test_a_token_is_renewed_half_a_minute_before_its_end_or_in_the_last_fifth_of_a_brief_time(
    lasts_s: float, early_s: float
) -> None:
    tokens = token("a1", lasts_s=lasts_s)
    assert tokens.expires_at is not None
    assert renewal_time(tokens) == pytest.approx(tokens.expires_at - early_s, abs=0.1)


async def test_a_brief_token_is_used_for_most_of_its_time() -> None:
    realm = Realm()
    held = of(realm, token("a1", "r1", lasts_s=2))
    assert await held.usable() == "a1"
    await asyncio.sleep(1.7)
    assert await held.usable() == "a2"


async def test_a_token_without_a_refresh_token_is_used_to_its_end_and_beyond_until_it_is_refused() -> None:
    held = of(Realm(), token("a1", lasts_s=-1))
    assert await held.usable() == "a1", "the service's clock may differ"
    with pytest.raises(TokenExpired, match="there is no refresh token"):
        await held.usable(refused="a1")
    assert await of(Realm(), token("a1")).usable(refused="a1") == "a1", "there is no other"


async def test_a_refresh_token_that_is_refused_is_not_tried_again() -> None:
    realm = Realm("another")
    held = of(realm, token("a1", "r1"))
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            await held.renewed()
    assert realm.asked == ["r1"]
    assert await held.usable() == "a1"


async def test_a_refresh_token_that_was_refused_is_not_taken_back() -> None:
    realm = Realm("another")
    pair = token("a1", "r1")
    held = of(realm, pair)
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            await held.renewed()
        held.offer(pair)
    assert realm.asked == ["r1"]
    held.offer(token("a1", "another"))
    assert await held.renewed("a1") == "a3"


async def test_any_other_token_replaces_one_that_a_service_has_refused() -> None:
    held = of(Realm(), token("revoked"))
    assert await held.usable(refused="revoked") == "revoked"
    held.offer(token("brief", "r1", lasts_s=HOUR_S / 2))
    assert (held.access_token, held.refresh_token) == ("brief", "r1")
    held.offer(token("briefer", lasts_s=HOUR_S / 4))
    assert held.access_token == "brief", "which nobody has refused"


async def test_an_older_pair_that_replaces_a_refused_token_leaves_the_later_refresh_token() -> None:
    realm = Realm()
    held = of(realm, token("a1", "r1"))
    realm.error = AuthUnavailable()
    with pytest.raises(AuthUnavailable):
        await held.usable(refused="a1")
    held.offer(token("older", "r0", lasts_s=HOUR_S / 2))
    assert (held.access_token, held.refresh_token) == ("older", "r1")


async def test_a_developers_refresh_token_that_is_over_leaves_a_valid_access_token() -> None:
    developer = DeveloperAuthenticator("dev")
    held = UserTokens(lambda refresh_token: developer.refresh(refresh_token, "ann"))
    # A moment before its end, when it would be renewed.
    held.offer(token("dev:ann", "dev:ann:1", lasts_s=2))
    await asyncio.sleep(1.7)
    assert await held.usable() == "dev:ann"


async def test_while_the_realm_is_away_a_valid_token_is_used_without_asking_each_time() -> None:
    realm = Realm()
    realm.error = AuthUnavailable()
    held = of(realm, token("a1", "r1", lasts_s=3))
    await asyncio.sleep(2.5)
    assert [await held.usable() for _ in range(3)] == ["a1"] * 3
    assert realm.asked == ["r1"]
    await asyncio.sleep(0.6)
    with pytest.raises(AuthUnavailable):
        await held.usable(refused="a1")
    realm.error = None
    assert await held.usable(refused="a1") == "a4"


async def test_newer_tokens_that_come_during_a_renewal_that_fails_are_used() -> None:
    realm = Realm("another")
    realm.answering.clear()
    held = of(realm, token("a1", "r1"))
    renewal = asyncio.create_task(held.renewed())
    await asyncio.sleep(0)
    held.offer(token("brought", "r7", lasts_s=2 * HOUR_S))
    realm.answering.set()
    assert await renewal == "brought"
    assert held.refresh_token == "r7"


async def test_an_access_token_that_comes_during_a_renewal_does_not_lose_the_new_refresh_token() -> None:
    realm = Realm()
    realm.answering.clear()
    held = of(realm, token("a1", "r1"))
    renewal = asyncio.create_task(held.renewed())
    await asyncio.sleep(0)
    held.offer(token("brought", lasts_s=2 * HOUR_S))
    realm.answering.set()
    assert await renewal == "brought"
    assert held.refresh_token == realm.valid == "r2"


async def test_the_cache_has_one_object_a_user_and_forgets_it_with_the_last_who_holds_it() -> None:
    async def refresh(refresh_token: str, user_id: str) -> Tokens:
        return token(f"{user_id}'s next", refresh_token)

    cache = TokenCache(refresh)
    ann, bob = cache.of("ann"), cache.of("bob")
    ann.offer(token("ann's", "r"))
    assert cache.of("ann") is ann
    assert bob.access_token is None
    assert await ann.renewed() == "ann's next"
    del ann
    gc.collect()
    assert cache.of("ann").access_token is None
    await cache.aclose()


async def test_a_renewal_ends_with_the_server() -> None:
    async def never(refresh_token: str, user_id: str) -> Tokens:
        await asyncio.Event().wait()
        raise AssertionError

    cache, before = TokenCache(never), asyncio.all_tasks()
    ann = cache.of("ann")
    ann.offer(token("ann's", "r"))
    waiting = asyncio.create_task(ann.renewed())
    await asyncio.sleep(0)
    await cache.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == before


def test_no_token_is_in_what_is_shown_of_them() -> None:
    held = of(Realm(), token("quokkaberry", "zanthoxylum"))
    assert "quokkaberry" not in repr((held, held.newest))
    assert "zanthoxylum" not in repr((held, held.newest))
