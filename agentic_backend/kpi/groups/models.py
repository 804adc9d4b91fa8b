"""Calls of chat models: how long they take, what they use and cost, after OpenTelemetry's GenAI conventions.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics: names, units, buckets and attributes are theirs. Each
label has a fixed set of values; what is not among them becomes `_OTHER`.
"""

from collections.abc import Callable, Collection

from agentic_backend.errors import OTHER
from agentic_backend.kpi.registry import GEN_AI_SECONDS, BegunAt, BoundedNames, MetricsRegistry, age_of_oldest

ERROR_TYPES = frozenset(
    {
        "model_timeout",
        "model_refused_key",
        "model_not_found",
        "model_quota",
        "context_too_long",
        "content_filtered",
        "rate_limited",
        "unreachable",
        "server_error",
        "request_refused",
        "stopped",
        "cut",
    }
)
"""Why a call failed. Those that exchanges fail with too have the same name there."""

# By the names that LangChain's packages give themselves.
_PROVIDERS = {
    "amazon_bedrock": "aws.bedrock",
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "groq": "groq",
    "ibm": "ibm.watsonx.ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "moonshot": "moonshot_ai",
    "offline": "offline",
    "ollama": "ollama",
    "openai": "openai",
    "perplexity": "perplexity",
    "xai": "x_ai",
}
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_CALL = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
_CHAT, _EMBEDDINGS = "chat", "embeddings"


def provider_named(name: str) -> str:
    """The convention's name of a provider that LangChain calls so."""
    return _PROVIDERS.get(name, OTHER)


class ModelMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._responding = BoundedNames()
        self._requested: Callable[[], Collection[str]] = frozenset
        """Gives the names of the models that have a label value of their own."""
        self._duration = metrics.histogram(
            "gen_ai_client_operation_duration_seconds",
            "Calls of models.",
            *_CALL,
            "error_type",
            buckets=GEN_AI_SECONDS,
        )
        self._first_chunk = metrics.histogram(
            "gen_ai_client_operation_time_to_first_chunk_seconds",
            "From a call of a chat model to the first chunk of its answer.",
            *_CALL,
            buckets=GEN_AI_SECONDS,
        )
        self._tokens = metrics.histogram(
            "gen_ai_client_token_usage",
            "Tokens that a call of a model used.",
            *_CALL,
            "gen_ai_token_type",
            buckets=_TOKENS,
        )
        self._running = metrics.gauge("chat_running_model_calls", "Calls of chat models that have not ended.")
        self._oldest = metrics.gauge(
            "chat_oldest_model_call_seconds", "For how long the oldest of these has run.", together="max"
        )
        self._cost = metrics.counter(
            "chat_model_cost", "What calls of models have cost.", "model", "currency", "estimated"
        )
        self._usage_lost = metrics.counter("chat_usage_lost", "Records of the usage of models that were lost.")

    def configured(self, names: Callable[[], Collection[str]]) -> None:
        """`names` gives the models of the settings and the catalog; a reload may add some."""
        self._requested = names

    def at_work(self, began_at: BegunAt) -> None:
        self._running.set_function(lambda: len(began_at()))
        self._oldest.set_function(lambda: age_of_oldest(began_at))

    def called(
        self,
        provider: str,
        requested: str,
        *,
        duration_s: float,
        first_chunk_s: float | None,
        tokens: tuple[int, ...] | None,
        error: str,
        is_embedding: bool = False,
    ) -> None:
        """A call has ended, or its run goes on without it.

        `provider` is LangChain's name of it; `requested` is the model as it was asked for. `first_chunk_s` is None of a
        call that did not stream. `tokens` begins with the input and the output tokens; `error` is one of ERROR_TYPES,
        or empty.
        """
        error = error if not error or error in ERROR_TYPES else OTHER
        operation = _EMBEDDINGS if is_embedding else _CHAT
        call = (operation, provider_named(provider), requested if requested in self._requested() else OTHER)
        self._duration.labels(*call, error).observe(duration_s)
        if first_chunk_s is not None:
            self._first_chunk.labels(*call).observe(first_chunk_s)
        for kind, count in zip(("input", "output"), tokens or (), strict=False):
            self._tokens.labels(*call, kind).observe(count)

    def cost(self, model: str, currency: str, amount: float, *, is_estimated: bool) -> None:
        """A call of a model has cost so much, by the prices of the settings; `is_estimated` says so of its tokens."""
        self._cost.labels(self._responding.label(model), currency, str(is_estimated).lower()).inc(amount)

    def usage_lost(self, count: int) -> None:
        """So many calls are missing from usage, costs and budgets, for the store did not take their records."""
        self._usage_lost.inc(count)
