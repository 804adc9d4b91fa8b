"""Faults of the provider of models."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gameday.fault import Fault
from gameday.site import Site
from support.providers.reply import Reply

ASK = ("hello", "assistant")
PANEL = ("models.json", "Calls that fail, by error")


def replying(reply: Reply) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    """The provider answers so."""

    @asynccontextmanager
    async def inject(site: Site) -> AsyncIterator[None]:
        before = site.provider.reply
        site.provider.reply = lambda messages: reply
        try:
            yield
        finally:
            site.provider.reply = before

    return inject


def failing(status: int, error_type: str, code: str, exception: str, runbook: str) -> Fault:
    return Fault(
        name=f"model {status}",
        site="called",
        inject=replying(Reply(status=status)),
        alert="ModelErrors",
        labels={"error_type": error_type},
        panel=PANEL,
        runbook=runbook,
        log="exchange failed",
        fields={"code": code, "exception": exception},
        felt=f"Answers end with the error `{code}`.",
        ask=ASK,
        outcome=code,
    )


MODEL_FAULTS = [
    # The first of its site: answers before that were in time count for an hour.
    Fault(
        name="model slow",
        site="called",
        inject=replying(Reply("late", late_s=3)),
        alert="FirstTokenSlow",
        labels={"slo": "first_token"},
        sooner={">= 10": ">= 3"},
        ends_soon_in_full=False,
        panel=("models.json", "To the first chunk, p50 and p95"),
        runbook="`model answers late`",
        log="model answers late",
        fields={"model": "^openai:gpt-of-the-tests$|^gpt-of-the-tests$", "first_chunk_ms": r"^[3-9]\d{3}$"},
        felt="They look at an empty answer for seconds.",
        ask=ASK,
    ),
    failing(401, "model_refused_key", "model_refused_key", "AuthenticationError", "the key is wrong"),
    failing(429, "rate_limited", "model_error", "RateLimitError", "fewer calls"),
    failing(500, "server_error", "model_error", "InternalServerError", "the provider; see"),
    Fault(
        name="model hangs",
        site="called",
        inject=replying(Reply("one two", hang_after=1)),
        alert="ModelHangs",
        sooner={"> 60": "> 3"},
        panel=("models.json", "Oldest call"),
        runbook="does not answer",
        log="exchange ended",
        fields={"code": "model_timeout"},
        felt="Answers stand still, and end with `model_timeout` after `limits.model_timeout_s`.",
        ask=ASK,
        # People of a game day give up before.
        outcome="model_timeout|nothing",
    ),
]
