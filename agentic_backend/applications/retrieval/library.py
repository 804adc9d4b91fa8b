"""Library: the collections, and who may read them.

A collection is read by its owner, and by the members of the group that it is shared with, as their tokens have it. What
is removed is found by nobody from that moment on.
"""

from asyncio import gather
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from uuid import uuid4

from agentic_backend.application import Application, NotFound, RecordConflict, SessionNotFound, Stored, User
from agentic_backend.applications.retrieval.records import OF_USERS, Collection
from agentic_backend.applications.retrieval.shelves import Place, Shelf

StoredCollection = Stored[Collection]

MOST_GROUPS = 50
"""Of one user, in which collections are looked for."""
_MOST_OF_GROUP, _READ_AT_ONCE = 200, 100
_TRIES = 5
OF_CONVERSATION = "conversation"
"""The id of the collection of a conversation's own files."""


class Library:
    def __init__(self, application: Application) -> None:
        self._application = application

    async def add(
        self, user: User, title: str, shared_with: str | None, embedding: str | None = None
    ) -> StoredCollection:
        """Raises LimitReached."""
        collection = Collection(id=uuid4().hex, title=title, shared_with=shared_with, embedding=embedding)
        return await self._at(Place(user.id)).collections.add(collection, collection.id)

    async def readable(self, user: User) -> list[StoredCollection]:
        """Those that the user may read: their own by title, then those of their groups."""
        own = [each async for each in self._own(user.id)]
        groups = sorted(user.groups)[:MOST_GROUPS]
        shared = await gather(*(self._shared(user, group) for group in groups))
        others = [each for page in shared for each in page if each.user_id != user.id]
        return [*_by_title(own), *_by_title(others)]

    async def get(self, user: User, collection_id: str) -> StoredCollection:
        """One that the user may read. Raises NotFound."""
        found = await self._at(Place(user.id)).collections.get(collection_id)
        if found is not None and not found.value.removing:
            return found
        for group in sorted(user.groups)[:MOST_GROUPS]:
            page = (
                await self._application.records_of(OF_USERS.collections)
                .of_group(user, group)
                .find("shared", collection_id)
            )
            for each in page.records:
                if not each.value.removing:
                    return each
        raise NotFound("There is no such collection.")

    async def get_of_session(self, user: User, session_id: str) -> StoredCollection:
        """The files of the user's own conversation. Raises NotFound and SessionNotFound."""
        found = await self._at(Place(user.id, session_id)).collections.get(OF_CONVERSATION)
        if found is None:
            raise NotFound("There is no such collection.")
        return found

    async def own(self, user: User, collection_id: str) -> StoredCollection:
        """One of the user's own. Raises NotFound."""
        found = await self._at(Place(user.id)).collections.get(collection_id)
        if found is None or found.value.removing:
            raise NotFound("There is no such collection of yours.")
        return found

    async def change(
        self, collection: StoredCollection, title: str, shared_with: str | None, embedding: str | None
    ) -> StoredCollection:
        """Raises RecordConflict if somebody else changes it at the same time."""
        values: dict[str, object] = {"title": title, "shared_with": shared_with, "embedding": embedding}
        if embedding != collection.value.embedding:
            values["changing"] = True
        changed = Collection.model_validate({**collection.value.model_dump(), **values})
        return await self._at(Place.of(collection)).collections.change(collection, changed)

    async def remove(self, collection: StoredCollection) -> None:
        """From now on nobody finds it; the ingestion removes what it has."""
        await self._update(collection, lambda _: {"removing": True, "shared_with": None})

    async def search_within(self, collection: StoredCollection, index: str, *, anew: bool = False) -> None:
        """Let searches of the collection look within this index too; `anew` if it may have been left out since."""
        if anew or index not in collection.value.indexes:
            await self._update(collection, lambda now: {"indexes": (*dict.fromkeys([*now.indexes, index]),)})

    async def search_no_longer_within(self, collection: StoredCollection, index: str) -> None:
        """Let searches of the collection leave this index out."""
        await self._update(collection, lambda now: {"indexes": tuple(each for each in now.indexes if each != index)})

    async def keep_changing(self, collection: StoredCollection) -> None:
        """Have its documents looked through for what is to be embedded."""
        if not collection.value.changing:
            await self._update(collection, lambda _: {"changing": True})

    async def has_changed(self, collection: StoredCollection) -> None:
        """Nothing of it is to be embedded any more. Raises RecordConflict if it has changed again since it was read."""
        changed = collection.value.model_copy(update={"changing": False})
        await self._at(Place.of(collection)).collections.change(collection, changed)

    async def may_read(self, user: User, collections: Sequence[StoredCollection]) -> dict[str, StoredCollection]:
        """Those of them that the user may read now, by id: what was read before this was theirs to read."""
        keys: dict[Place, list[str]] = {}
        for each in collections:
            keys.setdefault(Place.of(each), []).append(each.key)
        found = await gather(*(self._again(place, some) for place, some in keys.items()))
        return {each.key: each for there in found for each in there if is_readable(user, each)}

    async def _again(self, place: Place, keys: Sequence[str]) -> list[StoredCollection]:
        with suppress(SessionNotFound):
            own = self._at(place).collections
            return [
                each
                for first in range(0, len(keys), _READ_AT_ONCE)
                for each in (await own.get_several(keys[first : first + _READ_AT_ONCE])).values()
            ]
        return []

    async def at(self, place: Place, collection_id: str) -> StoredCollection | None:
        """As it is stored, for nobody to see."""
        return await self._at(place).collections.get(collection_id)

    async def of_conversation(self, place: Place) -> StoredCollection:
        """The files of a conversation. Raises SessionNotFound."""
        own = self._at(place).collections
        found = await own.get(OF_CONVERSATION)
        if found is not None:
            return found
        with suppress(RecordConflict):
            return await own.add(Collection(id=OF_CONVERSATION, title="This conversation"), OF_CONVERSATION)
        found = await own.get(OF_CONVERSATION)
        if found is None:
            raise NotFound("The conversation has no files.")
        return found

    async def forget(self, collection: StoredCollection) -> None:
        """Remove one that has no documents any more."""
        await self._at(Place.of(collection)).collections.remove(collection)

    async def _update(self, collection: StoredCollection, values: Callable[[Collection], Mapping[str, object]]) -> None:
        """Change it, whatever else others change of it meanwhile: `values` are what is new, of what it is then."""
        found: StoredCollection | None = collection
        for _ in range(_TRIES):
            if found is None:
                raise NotFound("The collection is gone.")
            changed = Collection.model_validate({**found.value.model_dump(), **values(found.value)})
            try:
                await self._at(Place.of(collection)).collections.change(found, changed)
                return
            except RecordConflict:
                found = await self._at(Place.of(collection)).collections.get(collection.key)
        raise RecordConflict("Others are changing this collection.")

    async def removed(self) -> AsyncIterator[StoredCollection]:
        """All people's that go, for nobody to see."""
        everybodys = self._application.records_of(OF_USERS.collections).of_all(None)
        async for each in everybodys.each("removing", True):
            yield each

    async def changing(self) -> AsyncIterator[StoredCollection]:
        """All people's of which something is to be embedded, for nobody to see."""
        everybodys = self._application.records_of(OF_USERS.collections).of_all(None)
        async for each in everybodys.each("changing", True):
            yield each

    async def _own(self, owner_id: str) -> AsyncIterator[StoredCollection]:
        async for each in self._at(Place(owner_id)).collections.each():
            if not each.value.removing:
                yield each

    async def _shared(self, user: User, group: str, *collection_id: str) -> list[StoredCollection]:
        """Those that are shared with a group, or the one of these with this id."""
        shared = self._application.records_of(OF_USERS.collections).of_group(user, group)
        page = await shared.find("shared", *collection_id, limit=_MOST_OF_GROUP)
        return [each for each in page.records if not each.value.removing]

    def _at(self, place: Place) -> Shelf:
        return Shelf(self._application, place)


def is_readable(user: User, collection: StoredCollection) -> bool:
    if collection.value.removing:
        return False
    return collection.user_id == user.id or collection.value.shared_with in user.groups


def _by_title(collections: Sequence[StoredCollection]) -> list[StoredCollection]:
    return sorted(collections, key=lambda each: (each.value.title.casefold(), each.key))
