"""SupervisedModule: one module, called with a timeout, behind a circuit, and whose health is known.

A module is an author's code: it may raise anything, hang, ignore its cancellation, or answer anything. Whatever it
does becomes a HookResult or a ModuleFailed.
"""

import asyncio
from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentic_backend.agents.at_work import AtWork, at_work
from agentic_backend.exception_detail import place_of
from agentic_backend.kpi import Kpi
from agentic_backend.policy.chat_module import ChatModule
from agentic_backend.policy.circuit import Circuit, CircuitState
from agentic_backend.policy.hook_checks import InvalidResult, checked
from agentic_backend.policy.hook_context import HookContext, Point
from agentic_backend.policy.hook_result import HookResult
from agentic_backend.policy.module_services import paid_by
from agentic_backend.policy.modules_file import METHODS, ModuleSpec
from agentic_backend.policy.usage_ledger import Payer
from agentic_backend.protocol.messages import Timestamp, utc_now
from agentic_backend.protocol.parts import Value

# Calls that ignore their cancellation and still run; beyond this number the module is not called.
_STUCK_AT_MOST = 20
# The part of its own time that a module must have had, so that a timeout counts towards its circuit.
_NEARLY_ALL = 0.9

TIMEOUT, CIRCUIT_OPEN, TOO_MANY = "timeout", "circuit_open", "too_many_running"


class ModuleHealth(Value):
    """How a module does on this instance since its start."""

    name: str
    class_path: str
    points: list[str]
    priority: int
    on_failure: str
    circuits: dict[str, CircuitState]
    """By point."""
    calls: int
    failures: int
    blocks: int
    mean_ms: float
    last_error: str | None
    last_error_at: Timestamp | None


class ModuleFailed(Exception):
    """`error` is the type of the exception, or one of the words above; `where` is the author's line, if it raised."""

    def __init__(self, error: str, where: str | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.where = where


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


class SupervisedModule:
    def __init__(self, spec: ModuleSpec, instance: ChatModule, kpi: Kpi) -> None:
        self.spec = spec
        self.instance = instance
        self.reads_messages = bool(instance.reads_messages)
        self._kpi = kpi
        self._circuits = {point: Circuit() for point in spec.points}
        """By point: where one method fails, another may work."""
        self._stuck: set[asyncio.Task[object]] = set()
        """The calls that were given up and have not ended."""
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
            circuits={str(point): circuit.state for point, circuit in sorted(self._circuits.items())},
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
        point, began = context.request.hook, self._clock()
        if rest_s <= 0:
            # The modules before it took all the time: that tells nothing about this one.
            raise self._failed(point, TIMEOUT)
        circuit = self._circuits[point]
        if not circuit.admits(began):
            raise self._failed(point, CIRCUIT_OPEN)
        has_told = False
        waits_s = min(rest_s, self.spec.entry.timeout_s)
        try:
            if len(self._stuck) >= _STUCK_AT_MOST:
                raise ModuleFailed(TOO_MANY)
            result = await self._result(context, waits_s, payer, log_fields)
            answer = checked(result, longest)
        except (ModuleFailed, InvalidResult) as error:
            told = error.error if isinstance(error, ModuleFailed) else type(error).__name__
            # Without nearly all of its own time, as after a stop, a timeout tells nothing.
            has_told = told != TIMEOUT or waits_s >= _NEARLY_ALL * self.spec.entry.timeout_s
            if has_told:
                circuit.failed(self._clock())
            where = error.where if isinstance(error, ModuleFailed) else str(error)
            raise self._failed(point, told, where) from None
        else:
            has_told = True
            circuit.succeeded()
        finally:
            if not has_told:
                circuit.let_go()
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
        for task in self._stuck:
            task.cancel()
        if self._stuck:
            await asyncio.wait(set(self._stuck), timeout=timeout_s)

    def _show_circuits(self) -> None:
        is_open = any(circuit.state is not CircuitState.CLOSED for circuit in self._circuits.values())
        self._kpi.modules.circuit(self.name, is_open=is_open)

    def _failed(self, point: Point, error: str, where: str | None = None) -> ModuleFailed:
        self._failures += 1
        self._last_error = error, utc_now()
        self._kpi.modules.failed(self.name, point)
        return ModuleFailed(error, where)

    async def _result(
        self, context: HookContext, timeout_s: float, payer: Payer, log_fields: Mapping[str, object]
    ) -> object:
        # In a task and a context of its own: nothing that it does to its task touches the exchange's.
        task = asyncio.create_task(self._guarded(context, payer, log_fields), context=Context())
        try:
            await asyncio.wait({task}, timeout=timeout_s)
        finally:
            if not task.done():
                self._stuck.add(task)
                task.add_done_callback(self._stuck.discard)
                task.cancel()
        if not task.done():
            raise ModuleFailed(TIMEOUT)
        if task.cancelled():
            raise ModuleFailed("CancelledError")
        result = task.result()
        if isinstance(result, _Raised):
            raise ModuleFailed(type(result.error).__name__, place_of(result.error))
        return result

    async def _guarded(self, context: HookContext, payer: Payer, log_fields: Mapping[str, object]) -> object:
        work = AtWork(f"module:{self.name}", log_fields, lambda data: None)
        method: Any = getattr(self.instance, METHODS[context.request.hook])
        with at_work(work), paid_by(payer):
            try:
                return await method(context)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                # SystemExit and KeyboardInterrupt of a task would end the event loop.
                return _Raised(error)
