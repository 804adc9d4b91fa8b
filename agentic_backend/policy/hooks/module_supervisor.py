"""ModuleSupervisor: makes the modules, starts and closes them, and finds those that apply to an exchange.

One per process. Without modules it costs nothing: `of` returns None.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.auth.user import User
from agentic_backend.disclosure.exception_detail import place_of
from agentic_backend.disclosure.readable_errors import readable_errors
from agentic_backend.kpi import Kpi
from agentic_backend.policy.chat_module import ModuleServices
from agentic_backend.policy.hook_context import Point, ScopeFacts
from agentic_backend.policy.hooks.context_building import Subject
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules
from agentic_backend.policy.hooks.modules_file import ModuleSpec
from agentic_backend.policy.hooks.supervised_module import ModuleHealth, SupervisedModule
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope
from agentic_backend.protocol.parts import Part
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord, SessionRecord
from agentic_backend.system_errors import summary_of

log = logging.getLogger(__name__)

_START_S, _CLOSE_S = 30.0, 2.0
# Calls beside exchanges that run at once; beyond this number, modules miss what happens.
_BESIDE_AT_MOST = 200


class CannotStartModule(Exception):
    """A module can't be made or started; the text says which and why, for the console."""


class ModuleSupervisor:
    def __init__(
        self,
        store: Store,
        kpi: Kpi,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        point_timeout_s: float = 10,
        scope_facts: Callable[[Mapping[str, str]], ScopeFacts] = lambda scope: ScopeFacts(),
    ) -> None:
        """`spawn` runs work beside the exchanges; its owner awaits it when the process ends.

        `scope_facts` tells what modules are told of a scope, which is an id by its kind.
        """
        self._store = store
        self._kpi = kpi
        self._spawn = spawn
        self._point_timeout_s = point_timeout_s
        self.scope_facts = scope_facts
        self._modules: list[SupervisedModule] = []
        self._beside = 0
        """The calls beside exchanges that run."""

    @property
    def health(self) -> list[ModuleHealth]:
        return [module.health for module in self._modules]

    def has(self, point: Point) -> bool:
        """Whether any module is called at this point."""
        return any(point in module.spec.points for module in self._modules)

    async def start(self, specs: Sequence[ModuleSpec], services: ModuleServices) -> None:
        """Make and start the modules, in the order in which they run. Raises CannotStartModule."""
        for spec in specs:
            try:
                with readable_errors():
                    instance = spec.target(spec.settings, services)
                    self._modules.append(SupervisedModule(spec, instance, self._kpi))
                    async with asyncio.timeout(_START_S):
                        await instance.start()
            except Exception as error:
                where = place_of(error, full_path=True)
                why = f"{summary_of(error, with_host=False)}{f' at {where}' if where else ''}"
                raise CannotStartModule(f"the module {spec.entry.name!r} can't start: {why}") from error

    async def aclose(self) -> None:
        """Close the modules, the last one first; one that fails or takes too long holds nobody up."""
        for module in reversed(self._modules):
            try:
                with readable_errors():
                    async with asyncio.timeout(_CLOSE_S):
                        await module.instance.aclose()
            except Exception as error:
                told = {"chat_module": module.name, "error": summary_of(error, with_host=False)}
                log.warning("module not closed", extra=told)
            await module.aclose(_CLOSE_S)

    def of_exchange(
        self,
        exchange: ExchangeRecord,
        agent: AgentSettings,
        session: SessionRecord | None,
        switches: Mapping[str, bool],
        *,
        is_new: bool = False,
    ) -> ExchangeModules | None:
        """The modules that apply to an exchange; `is_new`: its session is not stored yet. See `of`."""
        if not self._modules:
            return None
        scope = self.scope_facts(exchange.policy.scope if exchange.policy is not None else {})
        return self.of(Subject.of_exchange(exchange, agent, session, scope, is_new=is_new), switches)

    def session_event(self, point: Point, session: SessionRecord, found: AgentInScope, user: User | None) -> None:
        """Tell modules, beside what goes on, that `session` was opened or completed; `user` is None for the server."""
        if self._modules:
            subject = Subject.of_session(
                session, user, found.agent.settings, self.scope_facts(found.scope), found.scope
            )
            self.beside(self.of(subject, found.effective.modules), point)

    def of(self, subject: Subject, switches: Mapping[str, bool] | None = None) -> ExchangeModules | None:
        """The modules that apply to `subject`; None if none does.

        `switches` turns modules on or off by name, whatever agents their entries name.
        """
        if not self._modules:
            return None
        switched = switches or {}
        applying = [
            module for module in self._modules if switched.get(module.name, module.spec.applies_to(subject.agent))
        ]
        if not applying:
            return None
        return ExchangeModules(applying, subject, self._store, self._point_timeout_s)

    def beside(self, modules: ExchangeModules | None, point: Point, parts: Sequence[Part] | None = None) -> None:
        """Call the modules of `point` beside what goes on."""
        if modules is None or not modules.has(point):
            return
        if self._beside >= _BESIDE_AT_MOST:
            self._kpi.modules.missed(point)
            return
        self._beside += 1
        self._spawn(self._call_beside(modules, point, parts))

    async def _call_beside(self, modules: ExchangeModules, point: Point, parts: Sequence[Part] | None) -> None:
        try:
            await modules.beside(point, parts)
        finally:
            self._beside -= 1
