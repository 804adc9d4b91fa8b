"""Checks a MongoDB, beside servers that may use it: see stores/checking."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from uuid import uuid4

from agentic_backend.config.checks import CheckFailed
from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.mongo.applications.application_records import kinds_of_records
from agentic_backend.stores.mongo.documents import Database
from agentic_backend.stores.mongo.driver import Driver, MongoDriver, reason_of
from agentic_backend.stores.mongo.schema import version_in_words
from agentic_backend.stores.rows import PROOF_BYTES
from agentic_backend.stores.schema import SchemaTooNew

T = TypeVar("T")

_CHANGE = "check store.url, its user and password, and the network to it"


async def check_database(url: str, driver: Driver, limit_s: float) -> str:
    """What was found, in words. Raises CheckFailed."""
    return await _asked(url, driver, limit_s, _check)


async def kinds_in_database(url: str, driver: Driver, limit_s: float) -> Mapping[str, int]:
    """See stores/checking."""
    return await _asked(url, driver, limit_s, kinds_of_records)


async def _asked(url: str, driver: Driver, limit_s: float, question: Callable[[Database], Awaitable[T]]) -> T:
    """Raises CheckFailed."""
    try:
        opened = await MongoDriver.open(url, driver=driver, timeout_s=limit_s, observe=None)
        try:
            return await opened.run("check", question)
        finally:
            await opened.aclose()
    except StoreUnavailable as error:
        raise CheckFailed(reason_of(error.__cause__), _CHANGE) from error
    except SchemaTooNew as error:
        raise CheckFailed(str(error)) from error
    except ImportError as error:
        raise CheckFailed("motor is not installed", "install agentic-backend[motor], or change store.driver") from error


async def _check(database: Database) -> str:
    version = await version_in_words(database)
    proofs, proof = database["write_proofs"], uuid4().hex
    await proofs.insert_one({"_id": proof, "proof": b"\0" * PROOF_BYTES})
    await proofs.delete_one({"_id": proof})
    return f"opened; {version}; a write was made and removed"
