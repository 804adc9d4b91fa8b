"""SupervisedModule: one module, called with a timeout, behind circuits, and whose health is known.

A module is an author's code: it may raise anything, hang, ignore its cancellation, or answer anything. Whatever it
does, also while its answer is read, becomes a HookResult or a ModuleFailed.
"""

import asyncio
from collections.abc import Mapping
from contextvars import Context
from datetime import datetime
from typing import Any

from agentic_backend.agents.models.provider_failures import is_outage
from agentic_backend.agents.run.at_work import AtWork, at_work
from agentic_backend.disclosure.exception_detail import place_of
from agentic_backend.kpi import Kpi
from agentic_backend.loop.loop_load import wait_served
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
from agentic_backend.system_errors import system_words_of

# Calls that ignore their cancellation and still run; beyond this number the module is not called.
_STUCK_AT_MOST = 20
# The part of its own time that a module must have had, so that a timeout counts towards its circuit.
_NEARLY_ALL = 0.9
_LONGEST_NAME = 100

TIMEOUT, CIRCUIT_OPEN, TOO_MANY = "timeout", "circuit_open", "too_many_running"


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
    """`error` is the type of the exception, or one of the words above; `where` is the author's line, if it raised."""

    def __init__(self, error: str, where: str | None = None, *, was_away: bool = False) -> None:
        """`was_away`: the module, or what it depends on, whatever the text was."""
        super().__init__(error)
        self.error = error
        self.where = where
        self.was_away = was_away


class SupervisedModule:
    def __init__(self, spec: ModuleSpec, instance: ChatModule, kpi: Kpi) -> None:
        self.spec = spec
        self.instance = instance
        self.reads_messages = bool(instance.reads_messages)
        self._kpi = kpi
        self._circuits = {point: Circuits() for point in spec.points}
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
            if len(self._stuck) >= _STUCK_AT_MOST:
                raise ModuleFailed(TOO_MANY, was_away=True)
            answer = await self._result(context, waits_s, longest, payer, log_fields)
        except ModuleFailed as error:
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
        for task in self._stuck:
            task.cancel()
        if self._stuck:
            await asyncio.wait(set(self._stuck), timeout=timeout_s)

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
        """What the module answers, checked. Raises ModuleFailed."""
        # In a task and a context of its own: nothing that it does to its task touches the exchange's.
        task = asyncio.create_task(self._guarded(context, longest, payer, log_fields), context=Context())
        try:
            await wait_served(task, timeout_s)
        finally:
            if not task.done():
                self._stuck.add(task)
                task.add_done_callback(self._stuck.discard)
                task.cancel()
        if not task.done():
            raise ModuleFailed(TIMEOUT, was_away=True)
        if task.cancelled():
            raise ModuleFailed("CancelledError")
        result = task.result()
        if isinstance(result, ModuleFailed):
            raise result
        return result

    async def _guarded(
        self, context: HookContext, longest: int, payer: Payer, log_fields: Mapping[str, object]
    ) -> HookResult | ModuleFailed:
        work = AtWork(f"module:{self.name}", log_fields, lambda data: None)
        with at_work(work), paid_by(payer):
            try:
                method: Any = getattr(self.instance, METHODS[context.request.hook])
                # Its properties and lists may be code of the author too.
                return checked(await method(context), longest)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                # SystemExit and KeyboardInterrupt of a task would end the event loop.
                return _failure_of(error)


def _failure_of(error: BaseException) -> ModuleFailed:
    """What the module has failed with, in values of the server's own."""
    try:
        if type(error) is InvalidResult:
            return ModuleFailed(InvalidResult.__name__, str(error))
        name = type(error).__name__
        told = name if type(name) is str and len(name) <= _LONGEST_NAME and name.isprintable() else "Exception"
        named = ": ".join(filter(None, [told, system_words_of(error)]))
        return ModuleFailed(named, place_of(error), was_away=is_outage(error))
    except BaseException:
        # What describes it may be code of the author too.
        return ModuleFailed("Exception")
