"""Library: the collections, and who may read them.

A collection is read by its owner, and by the members of the group that it is shared with, as their tokens have it. What
is removed is found by nobody from that moment on.
"""

from asyncio import gather
from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

from agentic_backend.application import Application, NotFound, OwnRecords, RecordConflict, Stored, User
from agentic_backend.applications.retrieval.records import COLLECTIONS, Collection

StoredCollection = Stored[Collection]

MOST_GROUPS = 50
"""Of one user, in which collections are looked for."""
_MOST_OF_GROUP = 200
_TRIES = 5


class Library:
    def __init__(self, application: Application) -> None:
        self._application = application

    async def add(self, user: User, title: str, shared_with: str | None) -> StoredCollection:
        """Raises LimitReached."""
        collection = Collection(id=uuid4().hex, title=title, shared_with=shared_with)
        return await self._of(user.id).add(collection, collection.id)

    async def readable(self, user: User) -> list[StoredCollection]:
        """Those that the user may read: their own by title, then those of their groups."""
        own = [each async for each in self._own(user.id)]
        groups = sorted(user.groups)[:MOST_GROUPS]
        shared = await gather(*(self._shared(user, group) for group in groups))
        others = [each for page in shared for each in page if each.user_id != user.id]
        return [*_by_title(own), *_by_title(others)]

    async def get(self, user: User, collection_id: str) -> StoredCollection:
        """One that the user may read. Raises NotFound."""
        found = await self._of(user.id).get(collection_id)
        if found is not None and not found.value.removing:
            return found
        for group in sorted(user.groups)[:MOST_GROUPS]:
            page = await self._application.records_of(COLLECTIONS).of_group(user, group).find("shared", collection_id)
            for each in page.records:
                if not each.value.removing:
                    return each
        raise NotFound("There is no such collection.")

    async def own(self, user: User, collection_id: str) -> StoredCollection:
        """One of the user's own. Raises NotFound."""
        found = await self._of(user.id).get(collection_id)
        if found is None or found.value.removing:
            raise NotFound("There is no such collection of yours.")
        return found

    async def change(self, collection: StoredCollection, title: str, shared_with: str | None) -> StoredCollection:
        """Raises RecordConflict if somebody else changes it at the same time."""
        changed = collection.value.model_copy(update={"title": title, "shared_with": shared_with})
        return await self._of(collection.user_id).change(collection, changed)

    async def remove(self, collection: StoredCollection) -> None:
        """From now on nobody finds it; the ingestion removes what it has."""
        await self._update(collection, removing=True, shared_with=None)

    async def search_within(self, collection: StoredCollection, index: str) -> None:
        """Let searches of the collection look within this index too."""
        if index not in collection.value.indexes:
            await self._update(collection, indexes=(*collection.value.indexes, index))

    async def may_read(self, user: User, collections: Sequence[StoredCollection]) -> dict[str, StoredCollection]:
        """Those of them that the user may read now, by id: what was read before this was theirs to read."""
        found = await gather(*(self._of(each.user_id).get(each.key) for each in collections))
        return {each.key: each for each in found if each is not None and is_readable(user, each)}

    async def of_owner(self, owner_id: str, collection_id: str) -> StoredCollection | None:
        """As it is stored, for nobody to see."""
        return await self._of(owner_id).get(collection_id)

    async def forget(self, collection: StoredCollection) -> None:
        """Remove one that has no documents any more."""
        await self._of(collection.user_id).remove(collection)

    async def _update(self, collection: StoredCollection, **values: object) -> None:
        """Change it, whatever else others change of it meanwhile."""
        found: StoredCollection | None = collection
        for _ in range(_TRIES):
            if found is None:
                raise NotFound("The collection is gone.")
            changed = Collection.model_validate({**found.value.model_dump(), **values})
            try:
                await self._of(collection.user_id).change(found, changed)
                return
            except RecordConflict:
                found = await self._of(collection.user_id).get(collection.key)
        raise RecordConflict("Others are changing this collection.")

    async def _own(self, owner_id: str) -> AsyncIterator[StoredCollection]:
        cursor = None
        while True:
            page = await self._of(owner_id).find(limit=200, cursor=cursor)
            for each in page.records:
                if not each.value.removing:
                    yield each
            if (cursor := page.next_cursor) is None:
                return

    async def _shared(self, user: User, group: str) -> list[StoredCollection]:
        shared = self._application.records_of(COLLECTIONS).of_group(user, group)
        page = await shared.find("shared", limit=_MOST_OF_GROUP)
        return [each for each in page.records if not each.value.removing]

    def _of(self, owner_id: str | None) -> OwnRecords[Collection]:
        return self._application.records_of(COLLECTIONS).of_user(owner_id or "")


def is_readable(user: User, collection: StoredCollection) -> bool:
    if collection.value.removing:
        return False
    return collection.user_id == user.id or collection.value.shared_with in user.groups


def _by_title(collections: Sequence[StoredCollection]) -> list[StoredCollection]:
    return sorted(collections, key=lambda each: (each.value.title.casefold(), each.key))
