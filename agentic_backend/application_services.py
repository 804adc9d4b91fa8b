"""ApplicationServices: what an application may use of its server, from `start` on."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from langchain_core.messages import HumanMessage, SystemMessage

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.models.provider_failures import typed_failure
from agentic_backend.agents.runtime_context import RuntimeContext, current_context
from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError
from agentic_backend.kpi.groups.applications import Measure
from agentic_backend.policy.hooks.module_services import payer_of_hook
from agentic_backend.policy.usage.usage_ledger import Payer, UsageLedger, may_pay
from agentic_backend.protocol.messages import ChatMessage
from agentic_backend.records.records import Records
from agentic_backend.sessions.access import owned_messages
from agentic_backend.stores.base import Store

Purpose = Literal["application", "rerank", "judge", "grounding"]
"""What an application asks a model for, as the usage counts it."""

MOST_MESSAGES = 200


CallOfAnother = Callable[
    [str, str, User, Mapping[str, str], Mapping[str, str], Mapping[str, Any] | None], Awaitable[Any]
]


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric of the application's. `can_fall`: its values may be below 0."""

    labels: tuple[str, ...]
    can_fall: bool
    measure: Measure


class ApplicationServices:
    def __init__(
        self,
        records: Records,
        metrics: Mapping[str, Measured],
        store: Store,
        models: ChatModels,
        ledger: UsageLedger,
        call: CallOfAnother,
    ) -> None:
        """`metrics` are what measures them, by name; `call` makes a call of another application (Application.call)."""
        self.call = call
        self.records = records
        self._metrics = metrics
        self._store = store
        self._models = models
        self._ledger = ledger

    async def ask_model(self, system: str, text: str, *, user: User | None, model: str | None, purpose: Purpose) -> str:
        """See Application.ask_model."""
        asked = self._models.get(model)
        payer = await self._payer(user)
        budgets = self._ledger.budgets
        await budgets.check(payer.user_id, budgets.paying_group(payer.groups))
        try:
            answer = await self._ledger.ask(asked, [SystemMessage(system), HumanMessage(text)], payer, purpose)
        except AgenticError:
            raise
        except Exception as error:
            # Each provider raises its own errors.
            raise typed_failure(error) from None
        return answer.text

    async def transcript(self, user: User, session_id: str, after_rank: int, limit: int) -> Sequence[ChatMessage]:
        """See Application.transcript."""
        wanted = max(1, min(limit, MOST_MESSAGES))
        return (await owned_messages(self._store, user.id, session_id, after_rank, wanted))[1]

    def measure(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """See Application.measure. Raises LookupError and ValueError."""
        measured = self._metrics.get(name)
        if measured is None:
            raise LookupError(f"the application's 'metrics' do not have {name!r}")
        if not (isfinite(value) and (value >= 0 or measured.can_fall)):
            raise ValueError(f"{name}: {value} is no value of this metric")
        if {*labels} != {*measured.labels} or not all(isinstance(each, str) for each in labels.values()):
            raise ValueError(f"{name} needs the labels {', '.join(measured.labels) or 'none'}")
        measured.measure(value, labels)

    async def _payer(self, user: User | None) -> Payer:
        if user is not None:
            return Payer(user.id, may_pay(user.groups, user.scope))
        context = _running()
        if context is None:
            return payer_of_hook()
        exchange = await self._store.get_exchange(context.exchange_id)
        return Payer(context.user_id, agent_id=context.agent_id) if exchange is None else Payer.of(exchange)


def _running() -> RuntimeContext | None:
    """The context of the run in which this is called."""
    try:
        return current_context()
    except LookupError:
        return None
