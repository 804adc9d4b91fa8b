"""SupervisedModule: one module, called with a timeout, behind circuits, and whose health is known.

A module is an author's code: it may raise anything, hang, ignore its cancellation, or answer anything. Whatever it
does, also while its answer is read, becomes a HookResult or a ModuleFailed.
"""

import asyncio
from collections.abc import Mapping
from contextvars import Context
from datetime import datetime
from typing import Any

from agentic_backend.agents.run.authors_calls import TIMEOUT, AuthorsCalls, CallFailed
from agentic_backend.kpi import Kpi
from agentic_backend.policy.chat_module import ChatModule
from agentic_backend.policy.hook_context import HookContext, Point
from agentic_backend.policy.hook_result import HookResult
from agentic_backend.policy.hooks.circuit import Circuits, CircuitState
from agentic_backend.policy.hooks.hook_checks import InvalidResult, checked
from agentic_backend.policy.hooks.module_services import paid_by
from agentic_backend.policy.hooks.modules_file import METHODS, ModuleSpec
from agentic_backend.policy.usage.usage_ledger import Payer
from agentic_backend.protocol.messages import Timestamp, utc_now
from agentic_backend.protocol.parts import Value

# The part of its own time that a module must have had, so that a timeout counts towards its circuit.
_NEARLY_ALL = 0.9

CIRCUIT_OPEN = "circuit_open"


class ModuleHealth(Value):
    """How a module does on this instance since its start."""

    name: str
    class_path: str
    points: list[str]
    priority: int
    on_failure: str
    circuits: dict[str, CircuitState]
    """Of all users, by point."""
    users_kept_away: int
    """For how many users it is not called at one of its points, because it fails at what they say."""
    calls: int
    failures: int
    blocks: int
    mean_ms: float
    last_error: str | None
    last_error_at: Timestamp | None


class ModuleFailed(Exception):
    """`error` and `where` as CallFailed has them; also `circuit_open`."""

    def __init__(self, error: str, where: str | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.where = where


class SupervisedModule:
    def __init__(self, spec: ModuleSpec, instance: ChatModule, kpi: Kpi) -> None:
        self.spec = spec
        self.instance = instance
        self.reads_messages = bool(instance.reads_messages)
        self._kpi = kpi
        self._circuits = {point: Circuits() for point in spec.points}
        """By point: where one method fails, another may work."""
        self._author = AuthorsCalls(f"module:{spec.entry.name}")
        self._calls = self._failures = self._blocks = 0
        self._took_s = 0.0
        self._last_error: tuple[str, datetime] | None = None
        self._clock = asyncio.get_running_loop().time
        self._show_circuits()

    @property
    def name(self) -> str:
        return self.spec.entry.name

    @property
    def health(self) -> ModuleHealth:
        entry, last = self.spec.entry, self._last_error
        return ModuleHealth(
            name=entry.name,
            class_path=entry.class_path,
            points=sorted(self.spec.points),
            priority=entry.priority,
            on_failure=entry.on_failure,
            circuits={str(point): circuits.state for point, circuits in sorted(self._circuits.items())},
            users_kept_away=self._users_kept_away(),
            calls=self._calls,
            failures=self._failures,
            blocks=self._blocks,
            mean_ms=round(1000 * self._took_s / self._calls, 3) if self._calls else 0.0,
            last_error=last[0] if last is not None else None,
            last_error_at=last[1] if last is not None else None,
        )

    async def call(
        self, context: HookContext, rest_s: float, longest: int, payer: Payer, log_fields: Mapping[str, object]
    ) -> HookResult:
        """What the module answers at the point of `context`, within its timeout and `rest_s` seconds.

        `longest` bounds the texts of its answer, `payer` pays for the models that it asks. Raises ModuleFailed.
        """
        point, began, user_id = context.request.hook, self._clock(), context.user.id
        if rest_s <= 0:
            # The modules before it took all the time: that tells nothing about this one.
            raise self._failed(point, TIMEOUT)
        circuits = self._circuits[point]
        if not circuits.admits(user_id, began):
            raise self._failed(point, CIRCUIT_OPEN)
        has_told = False
        waits_s = min(rest_s, self.spec.entry.timeout_s)
        try:
            answer = await self._result(context, waits_s, longest, payer, log_fields)
        except CallFailed as error:
            # Without nearly all of its own time, as after a stop, a timeout tells nothing.
            has_told = error.error != TIMEOUT or waits_s >= _NEARLY_ALL * self.spec.entry.timeout_s
            if has_told and error.was_away:
                circuits.was_away(user_id, self._clock())
            elif has_told:
                circuits.failed(user_id, self._clock())
            raise self._failed(point, error.error, error.where) from None
        else:
            has_told = True
            circuits.succeeded(user_id)
        finally:
            if not has_told:
                circuits.let_go(user_id)
            self._calls += 1
            took_s = self._clock() - began
            self._took_s += took_s
            self._kpi.modules.called(self.name, point, took_s)
            self._show_circuits()
        if answer.action == "block":
            self._blocks += 1
            self._kpi.modules.blocked(self.name, point)
        return answer

    async def aclose(self, timeout_s: float) -> None:
        """Cancel the calls that were given up, and wait for them, at most so long."""
        await self._author.aclose(timeout_s)

    def _show_circuits(self) -> None:
        is_open = any(circuits.state is not CircuitState.CLOSED for circuits in self._circuits.values())
        self._kpi.modules.circuit(self.name, is_open=is_open or self._users_kept_away() > 0)

    def _users_kept_away(self) -> int:
        now = self._clock()
        return max((circuits.users_kept_away(now) for circuits in self._circuits.values()), default=0)

    def _failed(self, point: Point, error: str, where: str | None = None) -> ModuleFailed:
        self._failures += 1
        self._last_error = error, utc_now()
        self._kpi.modules.failed(self.name, point)
        return ModuleFailed(error, where)

    async def _result(
        self, context: HookContext, timeout_s: float, longest: int, payer: Payer, log_fields: Mapping[str, object]
    ) -> HookResult:
        """What the module answers, checked. Raises CallFailed."""

        async def call() -> HookResult | CallFailed:
            method: Any = getattr(self.instance, METHODS[context.request.hook])
            with paid_by(payer):
                try:
                    # Its properties and lists may be code of the author too.
                    return checked(await method(context), longest)
                except InvalidResult as error:
                    return CallFailed(InvalidResult.__name__, str(error))

        # Without the caller's context: what its models stream is not the exchange's.
        return await self._author.result(call, timeout_s, log_fields, Context())
