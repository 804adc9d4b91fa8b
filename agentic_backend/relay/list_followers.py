"""ListFollowers: the feeds that follow all sessions of a user, as a client does that shows their list.

Owned by the relay. What they are told is read from the store by SessionNews.
"""

from typing import Protocol

from agentic_backend.protocol.events import SessionChanged, SessionDeleted


class ListFollower(Protocol):
    def session_told(self, told: SessionChanged | SessionDeleted) -> None: ...

    def missed(self) -> None:
        """Changes may have been missed: the list is to be read again."""
        ...


class ListFollowers:
    def __init__(self) -> None:
        self._of: dict[str, set[ListFollower]] = {}
        """By user id."""

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def add(self, user_id: str, follower: ListFollower) -> None:
        self._of.setdefault(user_id, set()).add(follower)

    def remove(self, user_id: str, follower: ListFollower) -> None:
        followers = self._of.get(user_id, set())
        followers.discard(follower)
        if not followers:
            self._of.pop(user_id, None)

    def has(self, user_id: str) -> bool:
        return user_id in self._of

    def tell(self, user_id: str, told: SessionChanged | SessionDeleted) -> None:
        for follower in list(self._of.get(user_id, ())):
            follower.session_told(told)

    def missed(self, user_id: str | None = None) -> None:
        """Tell the followers of this user, or of all, that changes may have been missed."""
        for each in list(self._of) if user_id is None else [user_id]:
            for follower in list(self._of.get(each, ())):
                follower.missed()
