"""What modules are given: models to ask, at the expense of whoever's text they look at."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from langchain_core.messages import HumanMessage, SystemMessage

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.policy.chat_module import ModuleServices
from agentic_backend.policy.usage.usage_ledger import Payer, UsageLedger

_payer: ContextVar[Payer] = ContextVar("payer")
# Who pays for what a module asks when it starts, outside of any call.
_SERVER = Payer(user_id="")


@contextmanager
def paid_by(payer: Payer) -> Iterator[None]:
    """Models that are asked inside, also by tasks that are made there, are paid for by `payer`."""
    token = _payer.set(payer)
    try:
        yield
    finally:
        _payer.reset(token)


def current_payer() -> Payer:
    """Who pays for what is asked now, as `paid_by` says; outside of it the server, which is no user."""
    return _payer.get(_SERVER)


def module_services(models: ChatModels, ledger: UsageLedger) -> ModuleServices:
    async def ask_model(name: str | None, system: str, text: str) -> str:
        messages = [SystemMessage(system), HumanMessage(text)]
        answer = await ledger.ask(models.get(name), messages, current_payer(), "module")
        return str(answer.text)

    return ModuleServices(ask_model)
