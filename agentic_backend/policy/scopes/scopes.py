"""Scopes: in which organisation, class, task and assignment a user asks, and whether they may.

A scope is an id by its kind. What the user's token claims always applies; beside it, the client of a new session may
name scopes that the policies file, or the token, lets the user use. An assignment and a class bring the scopes that
they are in, and without lists of their own they are for the people of those.
"""

from collections.abc import Mapping

from agentic_backend.auth.user import User
from agentic_backend.errors import Forbidden
from agentic_backend.policy.hook_context import ScopeFacts, ScopeOf
from agentic_backend.policy.scopes.policies_file import Policies
from agentic_backend.protocol.scopes import ScopeKind

_SHOWN_ID = 64
_WITH_PARENTS: tuple[ScopeKind, ...] = ("assignment", "class")


def kept_of(user: User, named: Mapping[str, str]) -> dict[str, str]:
    """What a new session keeps of the scopes that its client names: not those that are up to the token."""
    return {kind: scope_id for kind, scope_id in named.items() if kind not in user.scope}


class Scopes:
    """Immutable."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def of(self, user: User, named: Mapping[str, str]) -> dict[str, str]:
        """The scope in which the user asks, who has `named` scopes for the session. Raises Forbidden.

        Of each kind, what the token claims goes first, then what an assignment or a class is in, then what is named.
        """
        for kind, scope_id in named.items():
            self._check(user, kind, scope_id)
        return self.unchecked(user, named)

    def unchecked(self, user: User | None, named: Mapping[str, str]) -> dict[str, str]:
        """The same for scopes that were checked before; without a user, the token's are not known."""
        claimed = user.scope if user is not None else {}
        scope, settled = {**named, **claimed}, set(claimed)
        for inner in _WITH_PARENTS:
            entry = self._policies.entry(inner, scope.get(inner))
            for kind, scope_id in entry.parents.items() if entry is not None else ():
                if kind not in settled:
                    scope[kind] = scope_id
                    settled.add(kind)
        return scope

    def facts(self, scope: Mapping[str, str]) -> ScopeFacts:
        """What modules are told about a scope."""
        return ScopeFacts(
            group=self._described("organisation", scope),
            class_=self._described("class", scope),
            task=self._described("task", scope),
            assignment=self._described("assignment", scope),
        )

    def _check(self, user: User, kind: str, scope_id: str) -> None:
        if kind not in user.scope and not self._may_use(user, kind, scope_id):
            # The same for one that there is not: nobody finds out which there are.
            raise Forbidden(f"You have no access to the {kind} '{scope_id[:_SHOWN_ID]}'.")

    def _may_use(self, user: User, kind: str, scope_id: str) -> bool:
        if kind in user.scope:
            return user.scope[kind] == scope_id
        if scope_id in user.scope_choices.get(kind, ()):
            return True
        entry = self._policies.entry(kind, scope_id)
        if entry is None:
            return False
        if entry.access.has_lists:
            return entry.access.allows(user)
        # Of a kind of which the token names several, an entry without lists is not for the others' people.
        is_open = kind not in user.scope_choices
        return is_open and all(self._may_use(user, parent, parent_id) for parent, parent_id in entry.parents.items())

    def _described(self, kind: ScopeKind, scope: Mapping[str, str]) -> ScopeOf | None:
        scope_id = scope.get(kind)
        if scope_id is None:
            return None
        entry = self._policies.entry(kind, scope_id)
        # Without a path of its own it stands at the top of the tree.
        path = (getattr(entry, "path", None) or f"/{scope_id.removeprefix('/')}") if kind == "organisation" else None
        if entry is None:
            return ScopeOf(scope_id, scope_id, path=path)
        settings = entry.model_dump(mode="json", exclude_unset=True, exclude={"access"})
        return ScopeOf(scope_id, entry.name or scope_id, settings, path)
